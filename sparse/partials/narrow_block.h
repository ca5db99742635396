// The fast way of writing and reading blocks (sparse/partials/blocks.h): those whose numbers are
// 62-bit multiples of one power of two, which are nearly all. The bytes are those of WriteBlock(),
// which takes the others.
#ifndef SPARSEAGG_SPARSE_PARTIALS_NARROW_BLOCK_H_
#define SPARSEAGG_SPARSE_PARTIALS_NARROW_BLOCK_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sparse/float_format.h"
#include "sparse/partials/blocks.h"

namespace sparseagg {

class NarrowBlock {
 public:
  // Sets the numbers: doubles, or slots in units of 2^lsb. Returns false if they are too far apart,
  // too large or too small. REQUIRES: at most kBlockSlots, the doubles finite.
  bool Set(std::span<const double> numbers);
  bool Set(std::span<const Int128> slots, int32_t lsb);

  // Appends the block to `out`. Returns false, leaving it unchanged, if it may have no fast form.
  // REQUIRES: the kind is not only_raw.
  bool Write(const BlockKind& kind, std::string& out) const;

  // Takes a block of `count` numbers from the front of `bytes`. Returns false, leaving `bytes`
  // unchanged, for one that Write() does not write: ReadBlock() tells whether it is valid.
  bool Read(std::string_view& bytes, const BlockKind& kind, size_t count);

  // Number i is unit(i) * 2^lsb().
  int64_t unit(size_t i) const { return units_[i]; }
  int32_t lsb() const { return lsb_; }
  // All numbers are below 2^top() in magnitude.
  int32_t top() const { return lsb_ + BitWidth(summary_.magnitudes); }

  // Writes the numbers as doubles. Returns false if one needs more than 53 bits.
  bool ToDoubles(double* out) const;

 private:
  struct Form {
    uint16_t form;
    size_t bytes;  // of each number
    int shift;     // the zeros at the end of all units
  };
  // What the choice of the form depends on.
  struct Summary {
    uint64_t any = 0;         // all units or-ed
    uint64_t magnitudes = 0;  // all magnitudes or-ed
    size_t nonzeros = 0;

    void Add(int64_t unit) {
      any |= static_cast<uint64_t>(unit);
      magnitudes |= MagnitudeOf(unit);
      nonzeros += unit != 0 ? 1 : 0;
    }
  };
  // Without a branch, which would be mispredicted for half of the units.
  static uint64_t MagnitudeOf(int64_t unit) {
    const auto sign = static_cast<uint64_t>(unit >> 63);
    return (static_cast<uint64_t>(unit) ^ sign) - sign;
  }
  // Chooses as WriteBlock() does. Returns false if digits may be the shortest form.
  bool Choose(const BlockKind& kind, Form& form) const;
  template <class V>
  bool AreValues(int shift) const;
  bool MayBeShorterInDigits(size_t bytes) const;
  bool ReadRaw(std::string_view& bytes, const BlockKind& kind, size_t count);
  bool ReadFixed(std::string_view& bytes, size_t width, size_t count);
  void SetZeros(size_t count);

  size_t count_ = 0;
  int32_t lsb_ = 0;
  Summary summary_;
  std::array<int64_t, kBlockSlots> units_;  // zeros from count_ on
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_PARTIALS_NARROW_BLOCK_H_

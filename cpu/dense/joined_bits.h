// Joins bitmaps of rows that follow one another, so that a kernel begins and ends less often.
#ifndef SPARSEAGG_CPU_DENSE_JOINED_BITS_H_
#define SPARSEAGG_CPU_DENSE_JOINED_BITS_H_

#include <array>
#include <cstdint>
#include <cstring>

#include "sparse/rows/packed_rows.h"

namespace sparseagg {

class JoinedBits {
 public:
  // Most rows, from the first bitmap's first row to the last bitmap's last row.
  static constexpr uint64_t kRowsMax = 8192;

  // Appends a bitmap. Returns false, and appends nothing, if there is no room, or if the bitmap
  // begins at a row that is already here, as may happen with blocks of an update that has a row
  // twice: one bit would then stand for two entries. REQUIRES: the last word of 32 bits has no bit
  // beyond the last row.
  bool Append(const PackedRows::Bits& bits) {
    const uint64_t first = size_ == 0 ? bits.first : rows_.first;
    const uint64_t at = bits.first - first;
    const uint64_t size = bits.last - first + 1;
    if (at < size_ || size > kRowsMax) return false;
    const uint64_t end = (size_ + 7) / 8;  // bytes so far
    if (at / 8 > end) std::memset(bytes_.data() + end, 0, at / 8 - end);
    unsigned char* out = bytes_.data() + at / 8;
    uint64_t pending = at / 8 < end ? *out : 0;  // fewer than 8 bits
    uint64_t words = (bits.last - bits.first) / 32 + 1;
    const unsigned char* in = bits.bytes;
    for (; words >= 2; words -= 2, in += 8, out += 8) {
      const uint64_t word = LoadAs<uint64_t>(in);
      Store(out, pending | word << at % 8);
      pending = word >> 1 >> (63 - at % 8);
    }
    if (words == 1) pending |= uint64_t{LoadAs<uint32_t>(in)} << at % 8;
    Store(out, pending);
    Store(out + 8, 0);  // a kernel may read these bytes
    rows_ = {first, bits.last, bytes_.data(), rows_.count + bits.count};
    size_ = size;
    return true;
  }

  const PackedRows::Bits& rows() const { return rows_; }

 private:
  static void Store(unsigned char* to, uint64_t value) { std::memcpy(to, &value, sizeof(value)); }

  PackedRows::Bits rows_;
  uint64_t size_ = 0;  // rows from the first to the last
  std::array<unsigned char, kRowsMax / 8 + 24> bytes_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_DENSE_JOINED_BITS_H_

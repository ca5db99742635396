// Bitmaps of rows that follow one another as one: a kernel has less to begin and to end with.
#ifndef SPARSEAGG_CPU_JOINED_BITS_H_
#define SPARSEAGG_CPU_JOINED_BITS_H_

#include <array>
#include <cstdint>
#include <cstring>

#include "sparse/packed_rows.h"

namespace sparseagg {

class JoinedBits {
 public:
  // From the first one's first row to the last one's last.
  static constexpr uint64_t kRowsMax = 8192;

  // Whether there was room. REQUIRES: rows beyond those that are here; in the last word of 32 bits
  // no bit beyond the last row.
  bool Append(const PackedRows::Bits& bits) {
    const uint64_t first = rows_.count == 0 ? bits.first : rows_.first;
    if (bits.last - first >= kRowsMax) return false;
    if (rows_.count == 0) bytes_.fill(0);
    const uint64_t at = bits.first - first;
    unsigned char* out = bytes_.data() + at / 8;
    uint64_t pending = *out;
    for (uint64_t k = 0; k <= bits.last - bits.first; k += 32) {
      uint32_t word;
      std::memcpy(&word, bits.bytes + k / 8, sizeof(word));
      pending |= uint64_t{word} << at % 8;
      std::memcpy(out, &pending, sizeof(word));
      out += sizeof(word);
      pending >>= 32;
    }
    *out = static_cast<unsigned char>(pending);
    rows_ = {first, bits.last, bytes_.data(), rows_.count + bits.count};
    return true;
  }

  const PackedRows::Bits& rows() const { return rows_; }

 private:
  PackedRows::Bits rows_;
  std::array<unsigned char, kRowsMax / 8 + 16> bytes_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_JOINED_BITS_H_

// A fixed-point number wide enough to hold any sum of doubles exactly: the definition of an exact
// sum.
//
// Two's complement, 34 words of 64 bits, the last bit worth 2^-1074 (the smallest double). The
// largest double is below 2^1024; the remaining bits hold sums of up to 2^76 of them. This is
// Kulisch's long accumulator; slow (272 bytes and a carry chain) and simple. Back ends use it for
// the rare sums that no smaller accumulator holds. Host and device.
#ifndef SPARSEAGG_SPARSE_WIDE_INTEGER_H_
#define SPARSEAGG_SPARSE_WIDE_INTEGER_H_

#include <cstdint>

#include "base/host_device.h"
#include "sparse/float_format.h"

namespace sparseagg {

class WideInteger {
 public:
  static constexpr int kWords = 34;
  static constexpr int kLastBit = -1074;  // power of two of bit 0

  // Adds value * 2^exponent. REQUIRES: exponent >= kLastBit, and the sum fits (see above).
  SPARSEAGG_HOST_DEVICE void AddScaled(Int128 value, int exponent) {
    const int position = exponent - kLastBit;
    const int word = position >> 6;
    const int shift = position & 63;
    // The value, shifted within a word, covers three words; beyond them only its sign continues.
    const UInt128 low = static_cast<UInt128>(value) << shift;
    const uint64_t sign = value < 0 ? ~uint64_t{0} : 0;
    const uint64_t high =
        shift == 0 ? sign
                   : static_cast<uint64_t>(static_cast<UInt128>(value >> 64) >> (64 - shift));
    uint64_t carry = 0;
    for (int i = word; i < kWords; ++i) {
      const int k = i - word;
      const uint64_t addend = k == 0   ? static_cast<uint64_t>(low)
                              : k == 1 ? static_cast<uint64_t>(low >> 64)
                              : k == 2 ? high
                                       : sign;
      if (k > 2 && addend + carry == 0)
        return;  // nothing left to add; all ones plus a carry also make zero
      const UInt128 sum = static_cast<UInt128>(words_[i]) + addend + carry;
      words_[i] = static_cast<uint64_t>(sum);
      carry = static_cast<uint64_t>(sum >> 64);
    }
  }

  // Adds a finite double.
  SPARSEAGG_HOST_DEVICE void Add(double value) {
    const Scaled parts = Decompose(value);
    if (parts.significand != 0) AddScaled(parts.significand, parts.exponent);
  }

  SPARSEAGG_HOST_DEVICE void Add(const WideInteger& other) {
    uint64_t carry = 0;
    for (int i = 0; i < kWords; ++i) {
      const UInt128 sum = static_cast<UInt128>(words_[i]) + other.words_[i] + carry;
      words_[i] = static_cast<uint64_t>(sum);
      carry = static_cast<uint64_t>(sum >> 64);
    }
  }

  SPARSEAGG_HOST_DEVICE bool negative() const { return (words_[kWords - 1] >> 63) != 0; }
  SPARSEAGG_HOST_DEVICE uint64_t word(int i) const { return words_[i]; }

  // Rounds once, to nearest with ties to even; +0 for zero; infinity beyond the range of the
  // format.
  SPARSEAGG_HOST_DEVICE double Round(FloatFormat format) const {
    const bool minus = negative();
    const WideInteger magnitude = minus ? Negated() : *this;
    int top = kWords - 1;
    while (top >= 0 && magnitude.words_[top] == 0) --top;
    if (top < 0) return 0.0;
    // The first 65 to 128 bits, and whether any bit set follows them.
    const int base = top > 0 ? top - 1 : 0;
    const UInt128 head =
        top > 0 ? (static_cast<UInt128>(magnitude.words_[top]) << 64) | magnitude.words_[top - 1]
                : magnitude.words_[0];
    bool sticky = false;
    for (int i = 0; i < base; ++i) sticky = sticky || magnitude.words_[i] != 0;
    const double rounded = RoundMagnitude(head, kLastBit + 64 * base, sticky, format);
    return minus && rounded != 0.0 ? -rounded : rounded;
  }
  SPARSEAGG_HOST_DEVICE double ToDouble() const { return Round(kFormatF64); }

  // The value as an integer modulo 2^128. REQUIRES: it is a whole number (the sum of whole
  // numbers).
  SPARSEAGG_HOST_DEVICE Int128 ToInteger() const {
    constexpr int kWord = -kLastBit / 64;
    constexpr int kShift = -kLastBit % 64;
    static_assert(kShift != 0);
    const UInt128 low = (static_cast<UInt128>(words_[kWord + 1]) << 64) | words_[kWord];
    return static_cast<Int128>((low >> kShift) |
                               (static_cast<UInt128>(words_[kWord + 2]) << (128 - kShift)));
  }

  friend SPARSEAGG_HOST_DEVICE bool operator==(const WideInteger& a, const WideInteger& b) {
    for (int i = 0; i < kWords; ++i) {
      if (a.words_[i] != b.words_[i]) return false;
    }
    return true;
  }

 private:
  SPARSEAGG_HOST_DEVICE WideInteger Negated() const {
    WideInteger result;
    uint64_t carry = 1;
    for (int i = 0; i < kWords; ++i) {
      const UInt128 sum = static_cast<UInt128>(~words_[i]) + carry;
      result.words_[i] = static_cast<uint64_t>(sum);
      carry = static_cast<uint64_t>(sum >> 64);
    }
    return result;
  }

  uint64_t words_[kWords] = {};
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_WIDE_INTEGER_H_

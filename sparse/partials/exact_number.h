// An exact number of a partial aggregate in its one normal form, as the wire format needs it
// (sparse/partials/blocks.h): an odd significand times a power of two, or a wide integer where 126
// bits do not hold the significand.
#ifndef SPARSEAGG_SPARSE_PARTIALS_EXACT_NUMBER_H_
#define SPARSEAGG_SPARSE_PARTIALS_EXACT_NUMBER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "sparse/float_format.h"
#include "sparse/wide_integer.h"

namespace sparseagg {

// significand * 2^exponent, with an odd significand, or 0 * 2^0. A number whose significand has
// more than kNarrowBits bits is in `wide`, and its significand is 0.
struct ExactNumber {
  static constexpr int kNarrowBits = 126;

  Int128 significand = 0;
  int32_t exponent = 0;  // of the lowest bit set, also of a wide number
  int32_t top = 0;       // exponent of the bit above the highest one set; 0 for 0
  std::shared_ptr<const WideInteger> wide;

  bool is_zero() const { return significand == 0 && wide == nullptr; }
  bool negative() const { return wide != nullptr ? wide->negative() : significand < 0; }
};

// The numbers of min and max may also be infinite: the sum of a contributor's duplicates is rounded
// to the value type. They are 1 and -1 with this exponent, above that of any sum.
inline constexpr int32_t kInfiniteExponent = 4096;
ExactNumber Infinite(bool negative);

// Returns value * 2^exponent.
ExactNumber MakeExact(Int128 value, int32_t exponent);
// REQUIRES: finite.
ExactNumber MakeExact(double value);
ExactNumber MakeExact(const WideInteger& value);
// Returns the same number as a wide integer. REQUIRES: its exponent is at least
// WideInteger::kLastBit.
WideInteger ToWideInteger(const ExactNumber& number);

// A digit of the balanced representation in base 2^32: digit * 2^(kLastBit + 32 * position), with
// -2^31 <= digit < 2^31. A number has exactly one such representation without zero digits, and a
// sum of a few doubles has few digits, however far apart they are.
struct BalancedDigit {
  uint8_t position;
  int32_t digit;
};
inline constexpr size_t kDigitBytes = 5;  // of a digit on the wire: its position, then itself
// The digits of a number in ascending positions.
std::vector<BalancedDigit> BalancedDigits(const WideInteger& value);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_PARTIALS_EXACT_NUMBER_H_

#include "sparse/partials/exact_number.h"

namespace sparseagg {
namespace {

UInt128 Magnitude(Int128 value) {
  return value < 0 ? -static_cast<UInt128>(value) : static_cast<UInt128>(value);
}

int TrailingZeros(UInt128 value) {
  const auto low = static_cast<uint64_t>(value);
  return low != 0 ? CountTrailingZeros(low)
                  : 64 + CountTrailingZeros(static_cast<uint64_t>(value >> 64));
}

// The words of the magnitude of a wide integer.
struct MagnitudeWords {
  explicit MagnitudeWords(const WideInteger& value) {
    uint64_t carry = 1;
    for (int i = 0; i < WideInteger::kWords; ++i) {
      words[i] = value.word(i);
      if (!value.negative()) continue;
      words[i] = ~words[i] + carry;
      carry = carry != 0 && words[i] == 0 ? 1 : 0;
    }
  }
  uint64_t words[WideInteger::kWords];
};

}  // namespace

ExactNumber Infinite(bool negative) {
  ExactNumber number;
  number.significand = negative ? -1 : 1;
  number.exponent = kInfiniteExponent;
  number.top = kInfiniteExponent + 1;
  return number;
}

ExactNumber MakeExact(Int128 value, int32_t exponent) {
  ExactNumber number;
  if (value == 0) return number;
  const int zeros = TrailingZeros(Magnitude(value));
  number.significand = value >> zeros;
  number.exponent = exponent + zeros;
  number.top = number.exponent + BitWidth(Magnitude(number.significand));
  if (number.top - number.exponent > ExactNumber::kNarrowBits) {
    WideInteger wide;
    wide.AddScaled(number.significand, number.exponent);
    number.wide = std::make_shared<const WideInteger>(wide);
    number.significand = 0;
  }
  return number;
}

ExactNumber MakeExact(double value) {
  const Scaled parts = Decompose(value);
  return MakeExact(parts.significand, parts.exponent);
}

ExactNumber MakeExact(const WideInteger& value) {
  const MagnitudeWords magnitude(value);
  int first = 0;
  int last = WideInteger::kWords - 1;
  while (last >= 0 && magnitude.words[last] == 0) --last;
  if (last < 0) return {};
  while (magnitude.words[first] == 0) ++first;
  ExactNumber number;
  const int low = 64 * first + CountTrailingZeros(magnitude.words[first]);
  const int top = 64 * last + 64 - CountLeadingZeros(magnitude.words[last]);
  number.exponent = WideInteger::kLastBit + low;
  number.top = WideInteger::kLastBit + top;
  if (top - low > ExactNumber::kNarrowBits) {
    number.wide = std::make_shared<const WideInteger>(value);
    return number;
  }
  UInt128 significand = 0;
  for (int i = last; i >= first; --i) {  // at most three words; the bits below `low` are zero
    const int shift = 64 * i - low;
    significand |= shift >= 0 ? static_cast<UInt128>(magnitude.words[i]) << shift
                              : static_cast<UInt128>(magnitude.words[i] >> -shift);
  }
  number.significand =
      value.negative() ? -static_cast<Int128>(significand) : static_cast<Int128>(significand);
  return number;
}

WideInteger ToWideInteger(const ExactNumber& number) {
  if (number.wide != nullptr) return *number.wide;
  WideInteger value;
  if (number.significand != 0) value.AddScaled(number.significand, number.exponent);
  return value;
}

std::vector<BalancedDigit> BalancedDigits(const WideInteger& value) {
  std::vector<BalancedDigit> digits;
  int64_t carry = 0;
  for (int i = 0; i < 2 * WideInteger::kWords; ++i) {
    const uint64_t word = value.word(i / 2);
    int64_t digit = static_cast<int64_t>(static_cast<uint32_t>(word >> (32 * (i % 2)))) + carry;
    carry = digit >= (int64_t{1} << 31) ? 1 : 0;
    digit -= carry << 32;
    if (digit != 0) digits.push_back({static_cast<uint8_t>(i), static_cast<int32_t>(digit)});
  }
  return digits;  // the last carry is the sign of a negative number, beyond the words
}

}  // namespace sparseagg

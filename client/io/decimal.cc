#include "client/io/decimal.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <compare>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace sparseagg::client {
namespace {

// +-0.DIGITS * 10^exponent. The digits neither begin nor end with 0; zero has none.
struct Decimal {
  bool negative = false;
  std::string digits;
  int64_t exponent = 0;
};

constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Removes and returns the digits at the front of `text`.
std::string_view TakeDigits(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), IsDigit);
  const std::string_view digits = text.substr(0, static_cast<size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  return digits;
}

// Removes a sign; returns true for a minus.
bool TakeSign(std::string_view& text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  return negative;
}

// Parses all of `text` as an exponent.
std::optional<int64_t> ParseExponent(std::string_view text) {
  // Larger exponents give the same result, because no text has that many digits.
  constexpr int64_t kExponentMax = 100'000'000'000'000'000;
  if (text.empty()) return 0;
  constexpr std::string_view kLetters = "eEdDqQ";
  const bool has_letter = kLetters.find(text[0]) != std::string_view::npos;
  if (has_letter) text.remove_prefix(1);
  const bool has_sign = text.starts_with('-') || text.starts_with('+');
  const bool negative = TakeSign(text);
  const std::string_view digits = TakeDigits(text);
  if (!text.empty() || digits.empty()) return std::nullopt;
  if (!has_letter && (!has_sign || digits.size() != 3)) return std::nullopt;
  int64_t exponent = 0;
  for (const char digit : digits) {
    exponent = std::min(kExponentMax, exponent * 10 + (digit - '0'));
  }
  return negative ? -exponent : exponent;
}

std::optional<Decimal> ParseText(std::string_view text) {
  Decimal decimal;
  decimal.negative = TakeSign(text);
  const std::string_view whole = TakeDigits(text);
  std::string_view fraction;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    fraction = TakeDigits(text);
  }
  const std::optional<int64_t> exponent = ParseExponent(text);
  if (whole.size() + fraction.size() == 0 || !exponent.has_value()) return std::nullopt;
  decimal.digits = absl::StrCat(std::string(whole), std::string(fraction));
  const size_t first = decimal.digits.find_first_not_of('0');
  if (first == std::string::npos) return Decimal{decimal.negative, "", 0};
  decimal.digits.erase(decimal.digits.find_last_not_of('0') + 1);
  decimal.digits.erase(0, first);
  decimal.exponent = *exponent + static_cast<int64_t>(whole.size()) - static_cast<int64_t>(first);
  return decimal;
}

std::strong_ordering CompareMagnitudes(const Decimal& a, const Decimal& b) {
  if (a.digits.empty() || b.digits.empty()) return a.digits.size() <=> b.digits.size();
  if (a.exponent != b.exponent) return a.exponent <=> b.exponent;
  return a.digits.compare(b.digits) <=> 0;
}

// The exact decimal digits of a finite double.
Decimal DecimalOf(double value) {
  const Scaled parts = Decompose(std::fabs(value));
  if (parts.significand == 0) return {};
  const int zeros = std::countr_zero(static_cast<uint64_t>(parts.significand));
  // The value is m * 2^last with m < 2^53, which has 16 digits. Each factor 2 adds at most 0.302
  // digits, each factor 1/2 (a factor 5 after the decimal point) at most 0.699.
  const int last = parts.exponent + zeros;
  const int digits_max = 18 + (last < 0 ? -last * 7 / 10 : last * 31 / 100);
  char text[800];
  const auto end =
      std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific, digits_max)
          .ptr;
  return *ParseText(std::string_view(text, static_cast<size_t>(end - text)));
}

// The nearest T (float or double); infinite beyond its range.
template <class T>
std::optional<T> ParseNearest(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole_text = error == std::errc() && end == text.data() + text.size();
  if (is_whole_text && std::isfinite(value)) return value;
  // The text begins with "+", has a Fortran exponent, is above or below the range of T, or is not a
  // number; "nan" and "inf" are not numbers here.
  const std::optional<Decimal> decimal = ParseText(text);
  if (!decimal.has_value()) return std::nullopt;
  const std::string plain =
      absl::StrCat(decimal->negative ? "-0." : "0.",
                   decimal->digits.empty() ? "0" : decimal->digits, "e", decimal->exponent);
  if constexpr (std::is_same_v<T, float>) return std::strtof(plain.c_str(), nullptr);
  return static_cast<T>(std::strtod(plain.c_str(), nullptr));
}

// Rounds the number in `text` to `format`, which has less precision than a double; `nearest` is the
// nearest double. Only if `nearest` is exactly between two numbers of the format, the digits beyond
// a double's precision decide.
double RoundNarrow(std::string_view text, double nearest, FloatFormat format) {
  const Scaled parts = Decompose(std::fabs(nearest));
  const auto magnitude = static_cast<UInt128>(parts.significand);
  const int half_bits =
      53 - (format.precision + 1);  // these bits are 0 in the midpoint of two numbers of the format
  std::strong_ordering order = std::strong_ordering::equal;
  if ((magnitude & ((UInt128{1} << half_bits) - 1)) == 0) {
    order = CompareMagnitudes(*ParseText(text), DecimalOf(std::fabs(nearest)));
  }
  // Only the side of `nearest` on which the exact value lies matters: the last of 64 further bits
  // stands for the difference.
  constexpr int kFurtherBits = 64;
  UInt128 extended = magnitude << kFurtherBits;
  if (std::is_lt(order)) extended -= 1;
  const double rounded =
      RoundMagnitude(extended, parts.exponent - kFurtherBits, std::is_neq(order), format);
  return std::copysign(rounded, nearest);
}

}  // namespace

std::optional<double> ParseDecimal(std::string_view text, FloatFormat format) {
  if (format.precision == kFormatF32.precision) return ParseNearest<float>(text);
  const std::optional<double> nearest = ParseNearest<double>(text);
  if (!nearest.has_value() || format.precision == kFormatF64.precision || *nearest == 0 ||
      !std::isfinite(*nearest)) {
    return nearest;
  }
  return RoundNarrow(text, *nearest, format);
}

std::optional<Int128> ParseWholeDecimal(std::string_view text) {
  constexpr int64_t kDigitsMax = 20;
  const std::optional<Decimal> decimal = ParseText(text);
  if (!decimal.has_value() || decimal->exponent > kDigitsMax ||
      decimal->exponent < static_cast<int64_t>(decimal->digits.size())) {
    return std::nullopt;
  }
  Int128 value = 0;
  for (int64_t i = 0; i < decimal->exponent; ++i) {
    const auto at = static_cast<size_t>(i);
    value = value * 10 + (at < decimal->digits.size() ? decimal->digits[at] - '0' : 0);
  }
  return decimal->negative ? -value : value;
}

std::strong_ordering CompareDecimal(std::string_view text, double value) {
  const Decimal a = *ParseText(text);
  const Decimal b = DecimalOf(value);
  const auto sign = [](const Decimal& d) { return d.digits.empty() ? 0 : d.negative ? -1 : 1; };
  if (sign(a) != sign(b)) return sign(a) <=> sign(b);
  return sign(a) < 0 ? CompareMagnitudes(b, a) : CompareMagnitudes(a, b);
}

}  // namespace sparseagg::client

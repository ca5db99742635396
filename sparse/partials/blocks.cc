#include "sparse/partials/blocks.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sparse/partials/exact_number.h"
#include "sparse/partials/little_endian.h"
#include "sparse/values.h"

namespace sparseagg {
namespace {

constexpr size_t kFixedBytesMax = 8 * WideInteger::kWords;
constexpr int kDigitPositions = (kNumberTop - WideInteger::kLastBit) / 32;

absl::Status Invalid(std::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_PARTIAL", what);
}

template <class V>
bool IsValueOf(const ExactNumber& number) {
  if (number.is_zero()) return true;
  if (number.wide != nullptr) return false;
  if constexpr (ValueTraits<V>::kFloating) {
    constexpr FloatFormat kFormat = ValueTraits<V>::kFormat;
    return number.top - number.exponent <= kFormat.precision &&
           number.exponent >= kFormat.min_exponent && number.top - 1 <= kFormat.max_exponent;
  } else {
    if (number.exponent < 0 || number.top > 64) return false;
    return FitsInteger<V>(number.significand * (Int128{1} << number.exponent));
  }
}

template <class V>
V ValueOf(const ExactNumber& number) {
  if constexpr (ValueTraits<V>::kFloating) {
    const bool negative = number.significand < 0;
    const auto magnitude =
        static_cast<uint64_t>(negative ? -number.significand : number.significand);
    const double value = ScaleExact(magnitude, number.exponent);
    return ValueTraits<V>::Narrow(negative ? -value : value);
  } else {
    return static_cast<V>(number.significand * (Int128{1} << number.exponent));
  }
}

bool AreValues(std::span<const ExactNumber> numbers, ValueType type) {
  return WithValueType(type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    return std::all_of(numbers.begin(), numbers.end(), IsValueOf<V>);
  });
}

// The numbers of a block as multiples of 2^lsb.
struct FixedForm {
  int32_t lsb = 0;
  size_t bytes = 0;  // of each number; 0: all are zero
};

FixedForm FixedFormOf(std::span<const ExactNumber> numbers) {
  bool any = false;
  int32_t lsb = 0;
  int32_t top = 0;
  for (const ExactNumber& number : numbers) {
    if (number.is_zero()) continue;
    lsb = any ? std::min(lsb, number.exponent) : number.exponent;
    top = any ? std::max(top, number.top) : number.top;
    any = true;
  }
  return any ? FixedForm{lsb, static_cast<size_t>(top - lsb) / 8 + 1} : FixedForm{};
}

void WriteFixed(const ExactNumber& number, const FixedForm& form, std::string& out) {
  if (number.wide == nullptr && form.bytes <= sizeof(Int128)) {
    const Int128 value =
        number.is_zero() ? 0 : number.significand * (Int128{1} << (number.exponent - form.lsb));
    out.append(reinterpret_cast<const char*>(&value), form.bytes);
    return;
  }
  const WideInteger value = ToWideInteger(number);
  const int first = form.lsb - WideInteger::kLastBit;
  const auto word_of = [&](int i) {
    return i < WideInteger::kWords ? value.word(i) : value.negative() ? ~uint64_t{0} : uint64_t{0};
  };
  for (size_t i = 0; i < form.bytes; ++i) {
    const int bit = first + 8 * static_cast<int>(i);
    uint64_t bits = word_of(bit / 64) >> (bit % 64);
    if (bit % 64 > 56) bits |= word_of(bit / 64 + 1) << (64 - bit % 64);
    out.push_back(static_cast<char>(bits));
  }
}

// Returns a lower bound of the bytes of a number in digits: its lowest and its highest bit are in
// different digits, or in one.
size_t DigitsBytesMin(const ExactNumber& number) {
  if (number.is_zero()) return 1;
  const int lowest = (number.exponent - WideInteger::kLastBit) / 32;
  const int highest = (number.top - 1 - WideInteger::kLastBit) / 32;
  return 1 + kDigitBytes * (lowest == highest ? 1 : 2);
}

// Returns the bytes of the block in digits, or more than `most` as soon as it is longer.
size_t DigitsBytes(std::span<const ExactNumber> numbers, size_t most) {
  size_t bytes = sizeof(uint16_t);
  for (const ExactNumber& number : numbers) bytes += DigitsBytesMin(number);
  if (bytes >= most) return most + 1;
  bytes = sizeof(uint16_t);
  for (const ExactNumber& number : numbers) {
    bytes += 1;
    if (!number.is_zero()) bytes += kDigitBytes * BalancedDigits(ToWideInteger(number)).size();
    if (bytes >= most) return most + 1;
  }
  return bytes;
}

void WriteDigits(const ExactNumber& number, std::string& out) {
  if (number.is_zero()) return out.push_back('\0');
  const std::vector<BalancedDigit> digits = BalancedDigits(ToWideInteger(number));
  out.push_back(static_cast<char>(digits.size()));
  for (const BalancedDigit& digit : digits) {
    out.push_back(static_cast<char>(digit.position));
    AppendNumber(digit.digit, out);
  }
}

absl::Status ReadRaw(std::string_view& bytes, const BlockKind& kind,
                     std::span<ExactNumber> numbers) {
  return WithValueType(*kind.raw, [&](auto tag) -> absl::Status {
    using V = typename decltype(tag)::type;
    for (ExactNumber& number : numbers) {
      V value{};
      if (!TakeNumber(bytes, value)) return Invalid("ends within a raw value");
      if constexpr (ValueTraits<V>::kFloating) {
        const double wide = Widen(value);
        if (!IsFiniteBits(wide)) {
          if (wide != wide || !kind.only_raw) return Invalid("has a raw value that is not finite");
          number = Infinite(wide < 0);
          continue;
        }
        number = MakeExact(wide);
      } else {
        number = MakeExact(static_cast<Int128>(value), 0);
      }
    }
    return absl::OkStatus();
  });
}

absl::Status ReadFixed(std::string_view& bytes, size_t width, std::span<ExactNumber> numbers) {
  int16_t lsb = 0;
  if (!TakeNumber(bytes, lsb)) return Invalid("ends within its head");
  if (lsb < WideInteger::kLastBit || lsb + 8 * static_cast<int>(width) > kNumberTop + 8) {
    return Invalid(absl::StrCat("has numbers of ", width, " bytes in units of 2^", lsb,
                                ", outside of 2^", WideInteger::kLastBit, " to 2^", kNumberTop));
  }
  if (bytes.size() / width < numbers.size()) return Invalid("ends within a number");
  for (ExactNumber& number : numbers) {
    const std::string_view own = bytes.substr(0, width);
    bytes.remove_prefix(width);
    const bool negative = (static_cast<uint8_t>(own.back()) & 0x80) != 0;
    if (width <= sizeof(Int128)) {
      UInt128 value = negative ? ~UInt128{0} : 0;
      std::memcpy(&value, own.data(), width);
      number = MakeExact(static_cast<Int128>(value), lsb);
      continue;
    }
    WideInteger value;
    for (size_t at = 0; at < width; at += 8) {
      const size_t part = std::min<size_t>(8, width - at);
      const bool last = at + part == width;
      uint64_t word = last && negative ? ~uint64_t{0} : 0;
      std::memcpy(&word, own.data() + at, part);
      const Int128 addend =
          last ? static_cast<Int128>(static_cast<int64_t>(word)) : static_cast<Int128>(word);
      if (addend != 0) value.AddScaled(addend, lsb + 8 * static_cast<int>(at));
    }
    number = MakeExact(value);
  }
  return absl::OkStatus();
}

absl::Status ReadDigits(std::string_view& bytes, std::span<ExactNumber> numbers) {
  for (ExactNumber& number : numbers) {
    uint8_t count = 0;
    if (!TakeNumber(bytes, count)) return Invalid("ends within a number");
    WideInteger value;
    for (int i = 0; i < count; ++i) {
      uint8_t position = 0;
      int32_t digit = 0;
      if (!TakeNumber(bytes, position) || !TakeNumber(bytes, digit)) {
        return Invalid("ends within a digit");
      }
      if (position >= kDigitPositions) {
        return Invalid(
            absl::StrCat("has a digit at position ", position, ", not below ", kDigitPositions));
      }
      value.AddScaled(digit, WideInteger::kLastBit + 32 * position);
    }
    number = MakeExact(value);
  }
  return absl::OkStatus();
}

absl::Status ReadBody(std::string_view& bytes, const BlockKind& kind, uint16_t form,
                      std::span<ExactNumber> numbers) {
  if (form == kZerosForm) {
    std::fill(numbers.begin(), numbers.end(), ExactNumber{});
    return absl::OkStatus();
  }
  if (form == kRawForm && kind.raw.has_value()) return ReadRaw(bytes, kind, numbers);
  if (form == kDigitsForm && !kind.only_raw) return ReadDigits(bytes, numbers);
  if (form <= kFixedBytesMax && !kind.only_raw) return ReadFixed(bytes, form, numbers);
  return Invalid(absl::StrCat("has the form ", form, ", which it cannot have"));
}

}  // namespace

void WriteBlock(std::span<const ExactNumber> numbers, const BlockKind& kind, std::string& out) {
  const FixedForm fixed = FixedFormOf(numbers);
  if (fixed.bytes == 0) return AppendNumber(kZerosForm, out);
  const size_t fixed_bytes = sizeof(uint16_t) + sizeof(int16_t) + numbers.size() * fixed.bytes;
  size_t best_bytes = fixed_bytes;
  uint16_t form = static_cast<uint16_t>(fixed.bytes);
  if (kind.raw.has_value() && (kind.only_raw || AreValues(numbers, *kind.raw))) {
    const size_t raw_bytes = sizeof(uint16_t) + numbers.size() * SizeOf(*kind.raw);
    if (kind.only_raw || raw_bytes <= fixed_bytes) {
      best_bytes = raw_bytes;
      form = kRawForm;
    }
  }
  if (!kind.only_raw && DigitsBytes(numbers, best_bytes) < best_bytes) form = kDigitsForm;
  AppendNumber(form, out);
  if (form == kRawForm) {
    WithValueType(*kind.raw, [&](auto tag) {
      for (const ExactNumber& number : numbers) {
        AppendNumber(ValueOf<typename decltype(tag)::type>(number), out);
      }
    });
  } else if (form == kDigitsForm) {
    for (const ExactNumber& number : numbers) WriteDigits(number, out);
  } else {
    AppendNumber(static_cast<int16_t>(fixed.lsb), out);
    for (const ExactNumber& number : numbers) WriteFixed(number, fixed, out);
  }
}

absl::Status ReadBlock(std::string_view& bytes, const BlockKind& kind,
                       std::span<ExactNumber> numbers) {
  const std::string_view begin = bytes;
  uint16_t form = 0;
  if (!TakeNumber(bytes, form)) return Invalid("ends within its head");
  SPARSEAGG_RETURN_IF_ERROR(ReadBody(bytes, kind, form, numbers));
  // There is one way to write the numbers. Comparing with it also finds redundant digits, -0 and
  // units that are too small.
  for (const ExactNumber& number : numbers) {
    if (number.top > kNumberTop && !kind.only_raw)
      return Invalid(absl::StrCat("has a number of 2^", kNumberTop));
  }
  std::string again;
  WriteBlock(numbers, kind, again);
  if (again != begin.substr(0, begin.size() - bytes.size())) {
    return Invalid("is not in the canonical form of its numbers");
  }
  return absl::OkStatus();
}

}  // namespace sparseagg

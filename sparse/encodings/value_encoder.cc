// The sender's half of sparse/encodings/value_coding.h. Every operation on numbers here is one of
// IEEE arithmetic, rounded to nearest, so that another client
// (python/sparseagg/_encode/value_coding.py) produces the same bytes.
#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sparse/encodings/narrow_float.h"
#include "sparse/encodings/packed_block.h"
#include "sparse/encodings/value_coding.h"

namespace sparseagg {
namespace {

absl::Status NotCodable(const EncodedHeader& header, uint64_t position, double value) {
  return MakeError(absl::StatusCode::kInvalidArgument, "VALUE_NOT_CODABLE",
                   absl::StrCat("tensor \"", header.name, "\": value ", position, " is ", value,
                                ", which ", header.values_encoding, " cannot hold; send it raw"));
}

template <class Narrow>
void Append(Narrow value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// narrow(float) returns the nearest Narrow, and is_finite(Narrow) whether that is finite.
template <class Narrow, class Wide, class Convert, class IsFinite>
absl::Status EncodeFloats(const EncodedHeader& header, const Wide* values, uint64_t count,
                          Convert narrow, IsFinite is_finite, std::string& out) {
  out.reserve(out.size() + count * sizeof(Narrow));
  for (uint64_t i = 0; i < count; ++i) {
    const auto single = static_cast<float>(values[i]);
    if (!std::isfinite(single)) return NotCodable(header, i, values[i]);
    const Narrow coded = narrow(single);
    if (!is_finite(coded)) return NotCodable(header, i, values[i]);
    Append(coded, out);
  }
  return absl::OkStatus();
}

// Returns a number in [0, 1) that depends only on the seed and the position.
double Uniform(uint64_t seed, uint64_t position) {
  return static_cast<double>(BlockKey(seed + position) >> 40) * 0x1p-24;
}

struct Rounding {
  bool stochastic;
  uint64_t seed;
  double limit;  // of |q|

  int8_t operator()(double quotient, uint64_t position) const {
    const double q =
        stochastic ? std::floor(quotient + Uniform(seed, position)) : std::nearbyint(quotient);
    return static_cast<int8_t>(std::clamp(q, -limit, limit));
  }
};

template <class Wide>
absl::Status EncodeScaled(const EncodedHeader& header, const Wide* values, uint64_t count,
                          const Rounding& rounding, std::vector<int8_t>& q, std::string& scales) {
  q.resize(count);
  for (uint64_t begin = 0; begin < count; begin += kScaleValues) {
    const uint64_t end = std::min(count, begin + kScaleValues);
    uint64_t largest = begin;
    for (uint64_t i = begin; i < end; ++i) {
      if (!std::isfinite(values[i])) return NotCodable(header, i, values[i]);
      if (std::abs(values[i]) > std::abs(values[largest])) largest = i;
    }
    const double magnitude = std::abs(static_cast<double>(values[largest]));
    auto scale = static_cast<float>(magnitude / rounding.limit);
    if (!std::isfinite(scale)) return NotCodable(header, largest, values[largest]);
    // Next to the largest number of the type, the nearest scale may lead beyond the type.
    if (!std::isfinite(static_cast<Wide>(rounding.limit * double{scale}))) {
      scale = std::nextafter(scale, 0.0f);
    }
    Append(scale, scales);
    for (uint64_t i = begin; i < end; ++i) {
      q[i] = scale == 0 ? int8_t{0} : rounding(values[i] / double{scale}, i);
    }
  }
  return absl::OkStatus();
}

template <class Wide>
absl::Status EncodeAs(const EncodedHeader& header, const ValueCoding& coding, const Wide* values,
                      uint64_t count, uint64_t seed, std::string& out) {
  const auto finite_single = [](float value) { return std::isfinite(value); };
  switch (coding.form) {
    case ValueForm::kF32:
      return EncodeFloats<float>(
          header, values, count, [](float value) { return value; }, finite_single, out);
    case ValueForm::kBF16:
      return EncodeFloats<uint16_t>(
          header, values, count, &BF16OfFloat,
          [](uint16_t bits) { return (bits & 0x7F80) != 0x7F80; }, out);
    case ValueForm::kF16:
      return EncodeFloats<uint16_t>(
          header, values, count, &F16OfFloat,
          [](uint16_t bits) { return (bits & 0x7C00) != 0x7C00; }, out);
    default:
      break;
  }
  const bool half = coding.form == ValueForm::kInt4;
  std::vector<int8_t> q;
  SPARSEAGG_RETURN_IF_ERROR(EncodeScaled(
      header, values, count, Rounding{coding.stochastic, seed, half ? 7.0 : 127.0}, q, out));
  if (!half) {
    out.append(reinterpret_cast<const char*>(q.data()), q.size());
    return absl::OkStatus();
  }
  for (uint64_t i = 0; i < count; i += 2) {
    const int high = i + 1 < count ? q[i + 1] : 0;
    out.push_back(static_cast<char>((q[i] & 0xF) | (high & 0xF) << 4));
  }
  return absl::OkStatus();
}

template <class Wide, class RoundTrip>
bool IsExact(const Wide* values, uint64_t count, RoundTrip round_trip) {
  using Bits = std::conditional_t<sizeof(Wide) == 8, uint64_t, uint32_t>;
  for (uint64_t i = 0; i < count; ++i) {
    const auto again = static_cast<Wide>(round_trip(static_cast<float>(values[i])));
    if (std::bit_cast<Bits>(again) != std::bit_cast<Bits>(values[i])) return false;
    if (!std::isfinite(again)) return false;
  }
  return true;
}

template <class Wide>
ValueForm SmallestExactForm(const Wide* values, uint64_t count) {
  if (IsExact(values, count, [](float v) { return FloatOfBF16(BF16OfFloat(v)); })) {
    return ValueForm::kBF16;
  }
  if (IsExact(values, count, [](float v) { return FloatOfF16(F16OfFloat(v)); })) {
    return ValueForm::kF16;
  }
  if (sizeof(Wide) == 8 && IsExact(values, count, [](float v) { return v; })) {
    return ValueForm::kF32;
  }
  return ValueForm::kRaw;
}

}  // namespace

absl::Status EncodeValues(const EncodedHeader& header, const ValueCoding& coding,
                          const void* values, uint64_t count, uint64_t seed, std::string& out) {
  if (coding.form == ValueForm::kRaw) {
    out.append(static_cast<const char*>(values), count * SizeOf(header.value_type));
    return absl::OkStatus();
  }
  if (header.value_type == ValueType::kF32) {
    return EncodeAs(header, coding, static_cast<const float*>(values), count, seed, out);
  }
  return EncodeAs(header, coding, static_cast<const double*>(values), count, seed, out);
}

ValueCoding SmallestExactCoding(ValueType type, const void* values, uint64_t count) {
  ValueForm form = ValueForm::kRaw;
  if (type == ValueType::kF32) {
    form = SmallestExactForm(static_cast<const float*>(values), count);
  } else if (type == ValueType::kF64) {
    form = SmallestExactForm(static_cast<const double*>(values), count);
  }
  const auto codings = AllValueCodings();
  return *std::find_if(codings.begin(), codings.end(),
                       [&](const ValueCoding& coding) { return coding.form == form; });
}

}  // namespace sparseagg

#include "sparse/encodings/value_coding.h"

#include <array>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sparse/encodings/chain_reader.h"
#include "sparse/encodings/narrow_float.h"

namespace sparseagg {
namespace {

constexpr ValueCoding kCodings[] = {
    {"raw", ValueForm::kRaw},   {"f32", ValueForm::kF32},
    {"bf16", ValueForm::kBF16}, {"f16", ValueForm::kF16},
    {"int8", ValueForm::kInt8}, {"int8.stochastic", ValueForm::kInt8, true},
    {"int4", ValueForm::kInt4}, {"int4.stochastic", ValueForm::kInt4, true},
};

bool SuitsType(ValueForm form, ValueType type) {
  if (form == ValueForm::kRaw) return true;
  return type == ValueType::kF64 || (type == ValueType::kF32 && form != ValueForm::kF32);
}

// Values are read through a buffer of this many, so that decoding allocates no memory and loops
// stay in the L1 cache.
constexpr uint64_t kBatchValues = 1024;
static_assert(kBatchValues % kScaleValues == 0);

// Converts Narrow to Wide without loss, in batches; widen(Narrow) returns the value.
template <class Narrow, class Wide, class Widen>
void DecodeFloats(uint64_t count, ByteChain values, Wide* out, Widen widen) {
  ChainReader reader(values);
  std::array<Narrow, kBatchValues> batch;
  for (uint64_t begin = 0; begin < count; begin += kBatchValues) {
    const uint64_t size = std::min(kBatchValues, count - begin);
    reader.Read(batch.data(), size * sizeof(Narrow));
    for (uint64_t i = 0; i < size; ++i) out[begin + i] = static_cast<Wide>(widen(batch[i]));
  }
}

absl::Status ScaleError(const EncodedHeader& header, uint64_t block, float scale) {
  return MakeError(absl::StatusCode::kInvalidArgument, "MALFORMED_BLOCK",
                   absl::StrCat("tensor \"", header.name, "\": the scale of value block ", block,
                                " is ", scale, "; it must be finite and not negative"));
}

// `Wide` is the type to which q * scale is rounded; in f64 the product is exact.
template <ValueForm kForm, class Wide>
absl::Status DecodeScaled(const EncodedHeader& header, uint64_t count, ByteChain values,
                          Wide* out) {
  const uint64_t blocks = (count + kScaleValues - 1) / kScaleValues;
  ChainReader scales(values);
  ChainReader reader(values);
  reader.Skip(blocks * sizeof(float));
  std::array<int8_t, kScaleValues> q;
  for (uint64_t block = 0; block < blocks; ++block, out += kScaleValues) {
    const uint64_t size = std::min(kScaleValues, count - block * kScaleValues);
    float scale;
    scales.Read(&scale, sizeof(scale));
    if (!(scale >= 0) || std::isinf(scale)) return ScaleError(header, block, scale);
    if constexpr (kForm == ValueForm::kInt8) {
      reader.Read(q.data(), size);
      for (uint64_t i = 0; i < size; ++i) out[i] = static_cast<Wide>(q[i]) * Wide{scale};
    } else {
      reader.Read(q.data(), (size + 1) / 2);
      for (uint64_t i = 0; i < size; ++i) {
        const auto pair = static_cast<uint8_t>(q[i / 2]);
        const int value = static_cast<int8_t>(i % 2 == 0 ? pair << 4 : pair & 0xF0) >> 4;
        out[i] = static_cast<Wide>(value) * Wide{scale};
      }
    }
  }
  return absl::OkStatus();
}

template <class Wide>
absl::Status DecodeAs(const EncodedHeader& header, ValueForm form, uint64_t count, ByteChain values,
                      Wide* out) {
  switch (form) {
    case ValueForm::kRaw:
      break;
    case ValueForm::kF32:
      DecodeFloats<float>(count, values, out, [](float value) { return value; });
      break;
    case ValueForm::kBF16:
      DecodeFloats<uint16_t>(count, values, out, [](uint16_t bits) { return FloatOfBF16(bits); });
      break;
    case ValueForm::kF16:
      DecodeFloats<uint16_t>(count, values, out, [](uint16_t bits) { return FloatOfF16(bits); });
      break;
    case ValueForm::kInt8:
      return DecodeScaled<ValueForm::kInt8>(header, count, values, out);
    case ValueForm::kInt4:
      return DecodeScaled<ValueForm::kInt4>(header, count, values, out);
  }
  return absl::OkStatus();
}

}  // namespace

std::span<const ValueCoding> AllValueCodings() { return kCodings; }

absl::StatusOr<ValueCoding> FindValueCoding(const EncodedHeader& header) {
  if (header.values_encoding.empty()) return kCodings[0];
  std::string known;
  for (const ValueCoding& coding : kCodings) {
    if (!SuitsType(coding.form, header.value_type)) continue;
    if (coding.name == header.values_encoding) return coding;
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(coding.name));
  }
  return MakeError(
      absl::StatusCode::kInvalidArgument, "UNKNOWN_VALUES_ENCODING",
      absl::StrCat("tensor \"", header.name, "\": ", std::string(ValueTypeName(header.value_type)),
                   " values have no encoding \"", header.values_encoding, "\"; there are ", known));
}

unsigned __int128 CodedBytes(ValueForm form, ValueType type, unsigned __int128 count) {
  const unsigned __int128 scales = (count + kScaleValues - 1) / kScaleValues * sizeof(float);
  switch (form) {
    case ValueForm::kRaw:
      break;
    case ValueForm::kF32:
      return 4 * count;
    case ValueForm::kBF16:
    case ValueForm::kF16:
      return 2 * count;
    case ValueForm::kInt8:
      return scales + count;
    case ValueForm::kInt4:
      return scales + (count + 1) / 2;
  }
  return SizeOf(type) * count;
}

absl::Status DecodeValues(const EncodedHeader& header, ValueForm form, uint64_t count,
                          ByteChain values, void* out) {
  if (form == ValueForm::kRaw) {
    ChainReader(values).Read(out, count * SizeOf(header.value_type));
    return absl::OkStatus();
  }
  if (header.value_type == ValueType::kF32) {
    return DecodeAs(header, form, count, values, static_cast<float*>(out));
  }
  return DecodeAs(header, form, count, values, static_cast<double*>(out));
}

}  // namespace sparseagg

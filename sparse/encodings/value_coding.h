// How the values of a coo.packed tensor are encoded: TensorHeader.values_encoding. The server sums
// the decoded value, a number of the tensor's value type, which is the same on every machine; from
// there on the sum is exact.
//
//   name                   tensor    bytes per value  decoded value
//   "" (raw)               any       the type's size  the value
//   f32                    f64       4                the value; exact
//   bf16, f16              f32, f64  2                the value; exact
//   int8, int8.stochastic  f32, f64  1 + 1/32         q * scale, rounded once to the value type
//   int4, int4.stochastic  f32, f64  1/2 + 1/32       the same
//
//   raw, f32, bf16, f16 := value *    little-endian, [nnz, row_width]
//   int8 := scale:f32 * q:i8 *        one scale for 128 consecutive values
//   int4 := scale:f32 * (q:i4 q:i4) * two's complement, the first in the low half of the byte;
//                                     the half after an odd number of values is 0
//
// The suffix tells how the sender rounded to q: to nearest, ties to even, or, if stochastic, up
// with a probability equal to the remainder. Decoding is the same for both. A scale is finite and
// not negative.
#ifndef SPARSEAGG_SPARSE_ENCODINGS_VALUE_CODING_H_
#define SPARSEAGG_SPARSE_ENCODINGS_VALUE_CODING_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sparse/encoding.h"

namespace sparseagg {

inline constexpr uint64_t kScaleValues = 128;  // values that share a scale

enum class ValueForm : uint8_t { kRaw, kF32, kBF16, kF16, kInt8, kInt4 };

struct ValueCoding {
  std::string_view name;
  ValueForm form;
  bool stochastic = false;
};

// Every name but "".
std::span<const ValueCoding> AllValueCodings();

// Finds the coding that header.values_encoding names; it may be empty or "raw". Returns
// INVALID_ARGUMENT (UNKNOWN_VALUES_ENCODING), naming the tensor, when header.value_type has no
// coding of this name.
absl::StatusOr<ValueCoding> FindValueCoding(const EncodedHeader& header);

// Returns the encoded bytes of `count` values.
unsigned __int128 CodedBytes(ValueForm form, ValueType type, unsigned __int128 count);

// Decodes `count` values into `out`. Returns INVALID_ARGUMENT (MALFORMED_BLOCK) when a scale is
// negative or not finite. REQUIRES: the chain holds CodedBytes().
absl::Status DecodeValues(const EncodedHeader& header, ValueForm form, uint64_t count,
                          ByteChain values, void* out);

// Appends `count` values of header.value_type. `seed` determines stochastic rounding: the same seed
// gives the same bytes. Returns INVALID_ARGUMENT (VALUE_NOT_CODABLE), naming tensor and value, for
// a value that is not finite or is beyond the range of the coding.
absl::Status EncodeValues(const EncodedHeader& header, const ValueCoding& coding,
                          const void* values, uint64_t count, uint64_t seed, std::string& out);

// Returns the smallest coding that changes none of these values.
ValueCoding SmallestExactCoding(ValueType type, const void* values, uint64_t count);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ENCODINGS_VALUE_CODING_H_

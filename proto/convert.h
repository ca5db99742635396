// Conversions between the messages of the wire (sparseagg.v1) and the types of sparse/, for both
// sides: the service receives with them, the client library sends. Conversions from the wire check
// what the types cannot hold (an enum value that this version does not know); everything else is
// checked where it is used.
#ifndef SPARSEAGG_PROTO_CONVERT_H_
#define SPARSEAGG_PROTO_CONVERT_H_

#include <string>

#include "absl/status/statusor.h"
#include "sparse/encoding.h"
#include "sparse/types.h"
#include "sparseagg/v1/types.pb.h"

namespace sparseagg {

v1::ValueType ToProto(ValueType type);
v1::IndexType ToProto(IndexType type);
v1::IntegerOverflow ToProto(IntegerOverflow overflow);
v1::TensorSpec ToProto(const TensorSpec& spec);
v1::TensorHeader ToProto(const EncodedHeader& header);

// Return INVALID_ARGUMENT (UNKNOWN_VALUE_TYPE, UNKNOWN_INDEX_TYPE, UNKNOWN_INTEGER_OVERFLOW),
// naming `tensor`, for a value that this version does not know. An unset index type is i64, an
// unset overflow is checked; an unset value type is an error.
absl::StatusOr<ValueType> FromProto(v1::ValueType type, const std::string& tensor);
absl::StatusOr<IndexType> FromProto(v1::IndexType type, const std::string& tensor);
absl::StatusOr<IntegerOverflow> FromProto(v1::IntegerOverflow overflow, const std::string& tensor);

// Returns the same errors. An empty operator is "sum".
absl::StatusOr<TensorSpec> FromProto(const v1::TensorSpec& spec);

// Return the same errors. An empty encoding is "coo.raw". The first function takes the sizes that
// the header states; the second, for a whole tensor, takes the lengths of its two byte fields and
// ignores the sizes in its header.
absl::StatusOr<EncodedHeader> FromProto(const v1::TensorHeader& header);
absl::StatusOr<EncodedHeader> FromProto(const v1::Tensor& tensor);

}  // namespace sparseagg

#endif  // SPARSEAGG_PROTO_CONVERT_H_

#include "proto/convert.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {
namespace {

absl::Status UnknownEnumValue(std::string_view reason, const std::string& tensor, const char* what,
                              int value) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason,
                   absl::StrCat("tensor \"", tensor, "\": ", what, " ", value, " is ",
                                value == 0 ? "not set" : "unknown to this version",
                                "; docs/api.md and sparseagg/v1/types.proto list the values"));
}

}  // namespace

// The enums of the wire and of sparse/ have the same numbers; these assertions ensure it.
static_assert(static_cast<int>(ValueType::kF16) == v1::VALUE_TYPE_F16);
static_assert(static_cast<int>(ValueType::kBF16) == v1::VALUE_TYPE_BF16);
static_assert(static_cast<int>(ValueType::kF32) == v1::VALUE_TYPE_F32);
static_assert(static_cast<int>(ValueType::kF64) == v1::VALUE_TYPE_F64);
static_assert(static_cast<int>(ValueType::kI32) == v1::VALUE_TYPE_I32);
static_assert(static_cast<int>(ValueType::kI64) == v1::VALUE_TYPE_I64);
static_assert(static_cast<int>(ValueType::kU32) == v1::VALUE_TYPE_U32);
static_assert(static_cast<int>(ValueType::kU64) == v1::VALUE_TYPE_U64);
static_assert(static_cast<int>(IndexType::kI64) == v1::INDEX_TYPE_I64);
static_assert(static_cast<int>(IndexType::kI32) == v1::INDEX_TYPE_I32);
static_assert(static_cast<int>(IntegerOverflow::kChecked) == v1::INTEGER_OVERFLOW_CHECKED);
static_assert(static_cast<int>(IntegerOverflow::kModular) == v1::INTEGER_OVERFLOW_MODULAR);

v1::ValueType ToProto(ValueType type) { return static_cast<v1::ValueType>(type); }
v1::IndexType ToProto(IndexType type) { return static_cast<v1::IndexType>(type); }
v1::IntegerOverflow ToProto(IntegerOverflow overflow) {
  return static_cast<v1::IntegerOverflow>(overflow);
}

v1::TensorSpec ToProto(const TensorSpec& spec) {
  v1::TensorSpec proto;
  proto.set_name(spec.name);
  proto.set_value_type(ToProto(spec.value_type));
  proto.mutable_dense_shape()->Add(spec.dense_shape.begin(), spec.dense_shape.end());
  proto.set_sparse_dim(spec.sparse_dim);
  proto.set_op(spec.op);
  proto.set_integer_overflow(ToProto(spec.integer_overflow));
  proto.set_plan(spec.plan);
  return proto;
}

v1::TensorHeader ToProto(const EncodedHeader& header) {
  v1::TensorHeader proto;
  proto.set_name(header.name);
  proto.set_encoding(header.encoding);
  proto.set_value_type(ToProto(header.value_type));
  proto.mutable_dense_shape()->Add(header.dense_shape.begin(), header.dense_shape.end());
  proto.set_sparse_dim(header.sparse_dim);
  proto.set_index_type(ToProto(header.index_type));
  proto.set_nnz(header.nnz);
  proto.set_indices_bytes(header.indices_bytes);
  proto.set_values_bytes(header.values_bytes);
  proto.set_values_encoding(header.values_encoding);
  return proto;
}

absl::StatusOr<ValueType> FromProto(v1::ValueType type, const std::string& tensor) {
  if (type == v1::VALUE_TYPE_UNSPECIFIED || !v1::ValueType_IsValid(type)) {
    return UnknownEnumValue("UNKNOWN_VALUE_TYPE", tensor, "value_type", type);
  }
  return static_cast<ValueType>(type);
}

absl::StatusOr<IndexType> FromProto(v1::IndexType type, const std::string& tensor) {
  if (type == v1::INDEX_TYPE_UNSPECIFIED) return IndexType::kI64;
  if (!v1::IndexType_IsValid(type))
    return UnknownEnumValue("UNKNOWN_INDEX_TYPE", tensor, "index_type", type);
  return static_cast<IndexType>(type);
}

absl::StatusOr<IntegerOverflow> FromProto(v1::IntegerOverflow overflow, const std::string& tensor) {
  if (overflow == v1::INTEGER_OVERFLOW_UNSPECIFIED) return IntegerOverflow::kChecked;
  if (!v1::IntegerOverflow_IsValid(overflow)) {
    return UnknownEnumValue("UNKNOWN_INTEGER_OVERFLOW", tensor, "integer_overflow", overflow);
  }
  return static_cast<IntegerOverflow>(overflow);
}

absl::StatusOr<TensorSpec> FromProto(const v1::TensorSpec& proto) {
  TensorSpec spec;
  spec.name = proto.name();
  SPARSEAGG_ASSIGN_OR_RETURN(spec.value_type, FromProto(proto.value_type(), proto.name()));
  spec.dense_shape.assign(proto.dense_shape().begin(), proto.dense_shape().end());
  spec.sparse_dim = proto.sparse_dim();
  if (!proto.op().empty()) spec.op = proto.op();
  SPARSEAGG_ASSIGN_OR_RETURN(spec.integer_overflow,
                             FromProto(proto.integer_overflow(), proto.name()));
  spec.plan = proto.plan();
  return spec;
}

absl::StatusOr<EncodedHeader> FromProto(const v1::TensorHeader& proto) {
  EncodedHeader header;
  header.name = proto.name();
  if (!proto.encoding().empty()) header.encoding = proto.encoding();
  SPARSEAGG_ASSIGN_OR_RETURN(header.value_type, FromProto(proto.value_type(), proto.name()));
  header.dense_shape.assign(proto.dense_shape().begin(), proto.dense_shape().end());
  header.sparse_dim = proto.sparse_dim();
  SPARSEAGG_ASSIGN_OR_RETURN(header.index_type, FromProto(proto.index_type(), proto.name()));
  header.nnz = proto.nnz();
  header.indices_bytes = proto.indices_bytes();
  header.values_bytes = proto.values_bytes();
  if (proto.values_encoding() != "raw") header.values_encoding = proto.values_encoding();
  return header;
}

absl::StatusOr<EncodedHeader> FromProto(const v1::Tensor& tensor) {
  SPARSEAGG_ASSIGN_OR_RETURN(EncodedHeader header, FromProto(tensor.header()));
  header.indices_bytes = tensor.indices().size();
  header.values_bytes = tensor.values().size();
  return header;
}

}  // namespace sparseagg

#include "client/result_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/wire/from_proto.h"
#include "proto/convert.h"

namespace sparseagg::client {
namespace {

absl::Status ProtocolError(const std::string& what) {
  return MakeError(absl::StatusCode::kInternal, "PROTOCOL_ERROR",
                   absl::StrCat("the server's aggregate ", what));
}

TensorSpec SpecOf(const EncodedHeader& header) {
  TensorSpec spec;
  spec.name = header.name;
  spec.value_type = header.value_type;
  spec.dense_shape = header.dense_shape;
  spec.sparse_dim = header.sparse_dim;
  return spec;
}

// The dense result of an empty selection: no row, and so no entry. MakeLayout() does not allow a
// dimension of length 0.
bool HasNoRow(const EncodedHeader& header) {
  return header.sparse_dim == 0 && !header.dense_shape.empty() && header.dense_shape[0] == 0;
}

absl::StatusOr<Tensor> MakeRowless(const EncodedHeader& header) {
  TensorSpec spec = SpecOf(header);
  spec.dense_shape[0] = 1;
  SPARSEAGG_ASSIGN_OR_RETURN(Tensor tensor, MakeEmptyTensor(spec));
  tensor.dense_shape[0] = 0;
  tensor.layout.row_width = 0;
  return tensor;
}

absl::Status Inspect(const EncodedHeader& header) {
  if (!HasNoRow(header)) return InspectTensor(header, SpecOf(header));
  if (header.nnz != 0 || header.indices_bytes != 0 || header.values_bytes != 0) {
    return ProtocolError(
        absl::StrCat("has entries in tensor \"", header.name, "\", whose first dimension is 0"));
  }
  return MakeRowless(header).status();
}

absl::StatusOr<Tensor> Decode(const EncodedHeader& header, std::string_view indices,
                              std::string_view values) {
  if (HasNoRow(header)) return MakeRowless(header);
  const TensorSpec spec = SpecOf(header);
  SPARSEAGG_ASSIGN_OR_RETURN(Tensor tensor, MakeEmptyTensor(spec));
  SPARSEAGG_ASSIGN_OR_RETURN(const Encoding* encoding, FindEncoding(header.encoding));
  tensor.indices.resize(header.nnz);
  tensor.values.resize(header.nnz * tensor.layout.row_bytes());
  const MutableCooView out{tensor.layout, header.nnz, tensor.indices.data(), tensor.values.data()};
  SPARSEAGG_RETURN_IF_ERROR(
      encoding->decode(header, spec, ByteChain(&indices, 1), ByteChain(&values, 1), out));
  return tensor;
}

}  // namespace

absl::Status ResultReader::Start(const v1::AggregateHeader& header) {
  if (std::exchange(started_, true)) return ProtocolError("has two headers");
  for (const v1::TensorHeader& tensor : header.tensors()) {
    SPARSEAGG_ASSIGN_OR_RETURN(EncodedHeader encoded, sparseagg::FromProto(tensor));
    SPARSEAGG_RETURN_IF_ERROR(Inspect(encoded));
    for (const uint64_t bytes : {encoded.indices_bytes, encoded.values_bytes}) {
      if (bytes > bytes_max_ - total_bytes_) {
        return MakeError(
            absl::StatusCode::kResourceExhausted, "RESULT_TOO_LARGE",
            absl::StrCat("tensor \"", encoded.name, "\": the aggregate takes more than ",
                         bytes_max_, " bytes; pull fewer tensors or indices"));
      }
      total_bytes_ += bytes;
    }
    headers_.push_back(std::move(encoded));
  }
  result_.manifest = FromProto(header.manifest());
  if (progress_) progress_(0, total_bytes_);
  return DecodeComplete();
}

absl::Status ResultReader::Append(const v1::AggregateChunk& chunk) {
  std::string_view data = chunk.data();
  if (!started_ || chunk.offset() != offset_ || data.size() > total_bytes_ - offset_) {
    return ProtocolError(absl::StrCat("has ", data.size(), " bytes at offset ", chunk.offset(),
                                      "; expected offset ", offset_, " of ", total_bytes_));
  }
  offset_ += data.size();
  while (!data.empty()) {
    const EncodedHeader& header = headers_[result_.tensors.size()];
    const bool in_indices = indices_.size() < header.indices_bytes;
    std::string& to = in_indices ? indices_ : values_;
    const uint64_t missing = (in_indices ? header.indices_bytes : header.values_bytes) - to.size();
    const size_t part = std::min<uint64_t>(missing, data.size());
    to.append(data.substr(0, part));
    data.remove_prefix(part);
    SPARSEAGG_RETURN_IF_ERROR(DecodeComplete());
  }
  if (progress_) progress_(offset_, total_bytes_);
  return absl::OkStatus();
}

// Decodes the current tensor if its bytes are complete, and tensors without bytes that follow it.
absl::Status ResultReader::DecodeComplete() {
  while (result_.tensors.size() < headers_.size()) {
    const EncodedHeader& header = headers_[result_.tensors.size()];
    if (indices_.size() < header.indices_bytes || values_.size() < header.values_bytes) break;
    SPARSEAGG_ASSIGN_OR_RETURN(Tensor tensor, Decode(header, indices_, values_));
    result_.tensors.push_back(std::move(tensor));
    indices_ = {};
    values_ = {};
  }
  return absl::OkStatus();
}

absl::StatusOr<Result> ResultReader::Finish() && {
  if (!started_ || result_.tensors.size() < headers_.size()) {
    return ProtocolError(absl::StrCat("ends after ", offset_, " of ", total_bytes_, " bytes"));
  }
  return std::move(result_);
}

}  // namespace sparseagg::client

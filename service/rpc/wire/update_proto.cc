#include "service/rpc/wire/update_proto.h"

#include <utility>

#include "base/status.h"
#include "proto/convert.h"
#include "proto/error_details.h"
#include "service/rpc/wire/round_proto.h"
#include "sparse/byte_chain.h"

namespace sparseagg {

UpdateHeader FromProto(const v1::UpdateHeader& proto) {
  UpdateHeader header;
  header.round = proto.round();
  header.contributor = proto.contributor();
  header.update_id = proto.update_id();
  // -0 becomes 0: digests tell them apart, the database does not.
  if (proto.has_weight()) header.weight = proto.weight() + 0.0f;
  return header;
}

absl::StatusOr<std::vector<EncodedTensor>> EncodedTensorsOf(const ReceivedUpdate& update) {
  std::vector<EncodedTensor> tensors;
  tensors.reserve(update.tensors.size());
  for (const ReceivedUpdate::Tensor& tensor : update.tensors) {
    EncodedTensor& encoded = tensors.emplace_back();
    SPARSEAGG_ASSIGN_OR_RETURN(encoded.header, FromProto(tensor.header));
    encoded.indices = tensor.indices;
    encoded.values = tensor.values;
    encoded.header.indices_bytes = TotalBytes(encoded.indices);
    encoded.header.values_bytes = TotalBytes(encoded.values);
  }
  return tensors;
}

absl::StatusOr<std::vector<EncodedHeader>> HeadersOf(const v1::BeginUpdate& begin) {
  std::vector<EncodedHeader> headers;
  headers.reserve(begin.tensors_size());
  for (const v1::TensorHeader& tensor : begin.tensors()) {
    SPARSEAGG_ASSIGN_OR_RETURN(EncodedHeader header, FromProto(tensor));
    headers.push_back(std::move(header));
  }
  return headers;
}

v1::StreamUpdatesResponse ToAnswer(const std::string& update_id, absl::StatusOr<Receipt> outcome) {
  v1::StreamUpdatesResponse answer;
  answer.set_update_id(update_id);
  if (outcome.ok()) {
    *answer.mutable_receipt() = ToProto(*std::move(outcome));
  } else {
    *answer.mutable_error() = ToProto(outcome.status());
  }
  return answer;
}

}  // namespace sparseagg

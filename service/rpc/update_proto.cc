#include "service/rpc/update_proto.h"

#include <utility>

#include "proto/convert.h"
#include "sparse/status.h"

namespace sparseagg {

UpdateHeader FromProto(const v1::UpdateHeader& proto) {
  UpdateHeader header;
  header.round = proto.round();
  header.contributor = proto.contributor();
  header.update_id = proto.update_id();
  if (proto.has_weight()) header.weight = proto.weight();
  return header;
}

absl::StatusOr<IncomingUpdate> FromProto(const v1::SubmitUpdateRequest& request) {
  IncomingUpdate update;
  update.header = FromProto(request.header());
  update.tensors.reserve(request.tensors_size());
  update.pieces.reserve(2 * request.tensors_size());  // never grows: the chains point into it
  for (const v1::Tensor& tensor : request.tensors()) {
    EncodedTensor& encoded = update.tensors.emplace_back();
    SPARSEAGG_ASSIGN_OR_RETURN(encoded.header, FromProto(tensor));
    encoded.indices = ByteChain(&update.pieces.emplace_back(tensor.indices()), 1);
    encoded.values = ByteChain(&update.pieces.emplace_back(tensor.values()), 1);
  }
  return update;
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

}  // namespace sparseagg

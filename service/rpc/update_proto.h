// An update as it came over the wire, in the form that the engine takes. This is the seam for
// another way to receive bytes: whatever fills an IncomingUpdate (here a parsed protobuf message)
// is unknown to the engine.
#ifndef SPARSEAGG_SERVICE_RPC_UPDATE_PROTO_H_
#define SPARSEAGG_SERVICE_RPC_UPDATE_PROTO_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "service/engine/engine.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// Views into the message that it was made from, which must outlive it. Move-only: `tensors` points
// into `pieces`.
struct IncomingUpdate {
  UpdateHeader header;
  std::vector<EncodedTensor> tensors;
  std::vector<std::string_view> pieces;  // what the chains of `tensors` refer to

  IncomingUpdate() = default;
  IncomingUpdate(IncomingUpdate&&) = default;
  IncomingUpdate& operator=(IncomingUpdate&&) = default;
  IncomingUpdate(const IncomingUpdate&) = delete;
  IncomingUpdate& operator=(const IncomingUpdate&) = delete;
};

// INVALID_ARGUMENT for an enum value that this version does not know. Copies no payload.
absl::StatusOr<IncomingUpdate> FromProto(const v1::SubmitUpdateRequest& request);

// An absent weight is 1.
UpdateHeader FromProto(const v1::UpdateHeader& header);

// INVALID_ARGUMENT as above.
absl::StatusOr<std::vector<EncodedHeader>> HeadersOf(const v1::BeginUpdate& begin);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_UPDATE_PROTO_H_

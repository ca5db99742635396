// Converts a received update to the engine's types, and its outcome to the answer.
#ifndef SPARSEAGG_SERVICE_RPC_WIRE_UPDATE_PROTO_H_
#define SPARSEAGG_SERVICE_RPC_WIRE_UPDATE_PROTO_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/engine/types.h"
#include "service/rpc/wire/received_update.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// An absent weight is 1, and -0 is 0.
UpdateHeader FromProto(const v1::UpdateHeader& header);

// The tensors of a whole update; their chains point into `update`. Their byte counts are those that
// were received; the header's are ignored. INVALID_ARGUMENT for an enum value that this version
// does not know.
absl::StatusOr<std::vector<EncodedTensor>> EncodedTensorsOf(const ReceivedUpdate& update);

// INVALID_ARGUMENT as above.
absl::StatusOr<std::vector<EncodedHeader>> HeadersOf(const v1::BeginUpdate& begin);

// The final answer to an update on a stream: its receipt or its error.
v1::StreamUpdatesResponse ToAnswer(const std::string& update_id, absl::StatusOr<Receipt> outcome);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_WIRE_UPDATE_PROTO_H_

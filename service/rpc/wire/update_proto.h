// An update as it came over the wire, in the form that the engine takes; and what became of it.
#ifndef SPARSEAGG_SERVICE_RPC_WIRE_UPDATE_PROTO_H_
#define SPARSEAGG_SERVICE_RPC_WIRE_UPDATE_PROTO_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/engine/engine.h"
#include "service/rpc/wire/received_update.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// An absent weight is 1, and -0 is 0.
UpdateHeader FromProto(const v1::UpdateHeader& header);

// The tensors of a whole update; their chains point into `update`. A tensor that came whole has as
// many bytes as it has, whatever its header says. INVALID_ARGUMENT for an enum value that this
// version does not know.
absl::StatusOr<std::vector<EncodedTensor>> EncodedTensorsOf(const ReceivedUpdate& update);

// INVALID_ARGUMENT as above.
absl::StatusOr<std::vector<EncodedHeader>> HeadersOf(const v1::BeginUpdate& begin);

// The last answer to an update on a stream.
v1::StreamUpdatesResponse ToAnswer(const std::string& update_id, absl::StatusOr<Receipt> outcome);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_WIRE_UPDATE_PROTO_H_

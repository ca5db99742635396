// Converts messages of the API to the library's structs. INVALID_ARGUMENT for an enum value that
// this version does not know, as in proto/convert.h.
#ifndef SPARSEAGG_CLIENT_WIRE_FROM_PROTO_H_
#define SPARSEAGG_CLIENT_WIRE_FROM_PROTO_H_

#include "absl/status/statusor.h"
#include "client/types.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg::client {

absl::StatusOr<RoundInfo> FromProto(const v1::Round& round);
Verification FromProto(const v1::VerifyRoundResponse& proto);
Receipt FromProto(const v1::Receipt& receipt);
Manifest FromProto(const v1::Manifest& manifest);
ServerInfo FromProto(const v1::ServerInfo& info);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_WIRE_FROM_PROTO_H_

// Converts the library's structs to messages of the API; proto/convert.h converts tensors.
#ifndef SPARSEAGG_CLIENT_WIRE_TO_PROTO_H_
#define SPARSEAGG_CLIENT_WIRE_TO_PROTO_H_

#include "client/types.h"
#include "sparseagg/v1/types.pb.h"

namespace sparseagg::client {

v1::RoundPolicy ToProto(const RoundPolicy& policy);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_WIRE_TO_PROTO_H_

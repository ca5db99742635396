// Converts what a round says of leaves and owners; a part of round_proto.h.
#ifndef SPARSEAGG_SERVICE_RPC_WIRE_TREE_PROTO_H_
#define SPARSEAGG_SERVICE_RPC_WIRE_TREE_PROTO_H_

#include "service/engine/round_tree.h"
#include "sparseagg/v1/types.pb.h"

namespace sparseagg {

v1::RoundTree ToProto(const RoundTree& tree);
RoundTree FromProto(const v1::RoundTree& proto);
v1::ResultPart ToProto(const ResultPart& part);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_WIRE_TREE_PROTO_H_

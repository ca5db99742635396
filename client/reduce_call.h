// One attempt of Reduce, the stateless operator: sends specification and updates, reads the
// aggregate.
#ifndef SPARSEAGG_CLIENT_REDUCE_CALL_H_
#define SPARSEAGG_CLIENT_REDUCE_CALL_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/transport/call.h"
#include "sparseagg/v1/aggregation.grpc.pb.h"

namespace sparseagg::client {

// `server_knows_packed`: the server knows coo.packed.
absl::StatusOr<Result> ReduceOnce(v1::AggregationService::StubInterface& stub, const Caller& caller,
                                  const ReduceRequest& request, uint64_t timeout_ms,
                                  bool server_knows_packed);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_REDUCE_CALL_H_

// ReadResult at another server, without a thread that waits for it.
#ifndef SPARSEAGG_SERVICE_TREE_OWNERS_ASYNC_READ_H_
#define SPARSEAGG_SERVICE_TREE_OWNERS_ASYNC_READ_H_

#include <memory>
#include <string>

#include "client/transport/call.h"
#include "service/engine/result/part_reader.h"
#include "service/tree/calls_in_progress.h"
#include "sparseagg/v1/aggregation.grpc.pb.h"

namespace sparseagg {

// Calls `done` once, from any thread. The arguments live until then.
void ReadResultAsync(std::shared_ptr<v1::AggregationService::Stub> stub,
                     const client::Caller& caller, std::shared_ptr<CallsInProgress> calls,
                     const std::string& name, const v1::ReadResultRequest& request,
                     PartReader::Done done);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TREE_OWNERS_ASYNC_READ_H_

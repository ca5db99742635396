// How gRPC hands the service its messages. The methods that bring updates, or lists of tensors, are
// raw: they get a message's bytes as gRPC read them, so that no payload is copied into a message
// first, and no list becomes one that takes a hundred times its bytes. A method of the .proto that
// is missing here is answered with UNIMPLEMENTED.
#ifndef SPARSEAGG_SERVICE_RPC_SERVICE_BASE_H_
#define SPARSEAGG_SERVICE_RPC_SERVICE_BASE_H_

#include <string_view>

#include "sparseagg/v1/aggregation.grpc.pb.h"

namespace sparseagg {

using Api = v1::AggregationService;

using RoundMethods = Api::WithRawCallbackMethod_CreateRound<Api::WithCallbackMethod_GetRound<
    Api::WithCallbackMethod_ListRounds<Api::WithCallbackMethod_SealRound<
        Api::WithCallbackMethod_AbortRound<Api::WithCallbackMethod_DeleteRound<Api::Service>>>>>>;
using ReadMethods = Api::WithCallbackMethod_WatchRound<
    Api::WithCallbackMethod_WaitRound<Api::WithRawCallbackMethod_GetAggregate<
        Api::WithCallbackMethod_VerifyRound<Api::WithCallbackMethod_GetServerInfo<RoundMethods>>>>>;
using ServiceBase = Api::WithRawCallbackMethod_SubmitUpdate<
    Api::WithRawCallbackMethod_StreamUpdates<Api::WithRawCallbackMethod_Reduce<ReadMethods>>>;

// The raw ones of them, by name: their messages are grpc::ByteBuffer.
constexpr bool IsRawMethod(std::string_view method) {
  return method == "SubmitUpdate" || method == "StreamUpdates" || method == "Reduce" ||
         method == "CreateRound" || method == "GetAggregate";
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_SERVICE_BASE_H_

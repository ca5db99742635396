// How gRPC hands the service its messages: raw, the bytes as gRPC read them. So no payload is
// copied into a message first, and nothing is parsed before it is known who calls
// (service/rpc/gate.h). A method of the .proto that is missing here is answered with UNIMPLEMENTED.
#ifndef SPARSEAGG_SERVICE_RPC_SERVICE_BASE_H_
#define SPARSEAGG_SERVICE_RPC_SERVICE_BASE_H_

#include "sparseagg/v1/aggregation.grpc.pb.h"

namespace sparseagg {

using Api = v1::AggregationService;

using RoundMethods = Api::WithRawCallbackMethod_CreateRound<
    Api::WithRawCallbackMethod_GetRound<Api::WithRawCallbackMethod_ListRounds<
        Api::WithRawCallbackMethod_SealRound<Api::WithRawCallbackMethod_AbortRound<
            Api::WithRawCallbackMethod_DeleteRound<Api::Service>>>>>>;
using ReadMethods = Api::WithRawCallbackMethod_WatchRound<Api::WithRawCallbackMethod_WaitRound<
    Api::WithRawCallbackMethod_GetAggregate<Api::WithRawCallbackMethod_VerifyRound<
        Api::WithRawCallbackMethod_GetServerInfo<RoundMethods>>>>>;
using ServiceBase = Api::WithRawCallbackMethod_SubmitUpdate<
    Api::WithRawCallbackMethod_StreamUpdates<Api::WithRawCallbackMethod_Reduce<ReadMethods>>>;

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_SERVICE_BASE_H_

// The generated service class with every method raw: handlers get the bytes as gRPC read them. So
// no payload is copied into a protobuf message, and nothing is parsed before the caller is
// authenticated (service/rpc/gate.h). gRPC answers a method of the .proto that is missing here with
// UNIMPLEMENTED.
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

// The AggregationService of sparseagg.v1 on gRPC's callback API. A handler translates the request,
// calls the engine and translates its result; the engine decides what a call may do and when.
// Streaming calls are implemented in files of their own.
//
// Handlers and the reactions of the streams are noexcept: gRPC would swallow an exception, and the
// call would never end. So running out of memory ends the process, and the next start recovers.
#ifndef SPARSEAGG_SERVICE_RPC_AGGREGATION_SERVICE_H_
#define SPARSEAGG_SERVICE_RPC_AGGREGATION_SERVICE_H_

#include "service/engine/engine.h"
#include "service/rpc/background.h"
#include "service/rpc/call_authoriser.h"
#include "service/rpc/call_counter.h"
#include "service/rpc/drain_list.h"
#include "service/rpc/tenant_fair_queue.h"
#include "service/rpc/ticker.h"
#include "sparseagg/v1/aggregation.grpc.pb.h"

namespace sparseagg {

inline constexpr char kAggregationServiceName[] = "sparseagg.v1.AggregationService";

// The generated service class with every method raw: handlers get the bytes as gRPC read them. So
// no payload is copied into a protobuf message, and nothing is parsed before the caller is
// authenticated (service/rpc/call_authoriser.h). gRPC answers a method of the .proto that is
// missing here with UNIMPLEMENTED.
using Api = v1::AggregationService;
using RoundMethods = Api::WithRawCallbackMethod_CreateRound<
    Api::WithRawCallbackMethod_GetRound<Api::WithRawCallbackMethod_ListRounds<
        Api::WithRawCallbackMethod_SealRound<Api::WithRawCallbackMethod_AbortRound<
            Api::WithRawCallbackMethod_DeleteRound<Api::Service>>>>>>;
using ReadMethods = Api::WithRawCallbackMethod_WatchRound<Api::WithRawCallbackMethod_WaitRound<
    Api::WithRawCallbackMethod_GetAggregate<Api::WithRawCallbackMethod_VerifyRound<
        Api::WithRawCallbackMethod_GetServerInfo<RoundMethods>>>>>;
using ServiceBase =
    Api::WithRawCallbackMethod_SubmitUpdate<Api::WithRawCallbackMethod_StreamUpdates<
        Api::WithRawCallbackMethod_Reduce<Api::WithRawCallbackMethod_UploadChunk<
            Api::WithRawCallbackMethod_ReadResult<Api::WithRawCallbackMethod_GetPartial<
                Api::WithRawCallbackMethod_SubmitPartial<ReadMethods>>>>>>>;

// Thread-safe. Must outlive the server that it is registered with.
class AggregationService : public ServiceBase {
 public:
  // `engine` must outlive the service. `security` says who may call. `info` is what GetServerInfo
  // answers; its default_durability is that of rounds that state none.
  AggregationService(Engine& engine, v1::ServerInfo info, ServerSecurity security);

  // Authorises the calls of this service, and those of others with the same limits.
  CallAuthoriser& authoriser() { return authoriser_; }

  // Ends the calls whose length the client decides (DrainList). To be called once, when the server
  // stops.
  void Drain() { drain_list_.DrainAll(); }
  // Returns when no call is in progress, at the latest at `deadline`.
  void WaitUntilIdle(std::chrono::system_clock::time_point deadline) {
    calls_.WaitUntilIdle(deadline);
  }

  grpc::ServerUnaryReactor* CreateRound(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) noexcept override;
  grpc::ServerUnaryReactor* GetRound(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) noexcept override;
  grpc::ServerUnaryReactor* ListRounds(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) noexcept override;
  grpc::ServerUnaryReactor* SealRound(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) noexcept override;
  grpc::ServerUnaryReactor* AbortRound(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) noexcept override;
  grpc::ServerUnaryReactor* DeleteRound(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) noexcept override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* WatchRound(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) noexcept override;
  grpc::ServerUnaryReactor* WaitRound(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) noexcept override;
  grpc::ServerUnaryReactor* SubmitUpdate(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) noexcept override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StreamUpdates(
      grpc::CallbackServerContext* context) noexcept override;
  grpc::ServerUnaryReactor* UploadChunk(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) noexcept override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* GetAggregate(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) noexcept override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* GetPartial(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) noexcept override;
  grpc::ServerUnaryReactor* SubmitPartial(grpc::CallbackServerContext* context,
                                          const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) noexcept override;
  grpc::ServerUnaryReactor* ReadResult(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) noexcept override;
  grpc::ServerUnaryReactor* VerifyRound(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) noexcept override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Reduce(
      grpc::CallbackServerContext* context) noexcept override;
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context,
                                          const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) noexcept override;

 private:
  CallAuthoriser authoriser_;
  const v1::ServerInfo info_;
  CallCounter calls_;
  DrainList drain_list_;
  Background background_;
  Background commits_;
  TenantFairQueue verifications_;
  Ticker time_checks_;  // last: uses the others
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_AGGREGATION_SERVICE_H_

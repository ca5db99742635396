#include "service/rpc/aggregation_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/rpc/get_aggregate.h"
#include "service/rpc/reduce.h"
#include "service/rpc/round_proto.h"
#include "service/rpc/status_table.h"
#include "service/rpc/stream_updates.h"
#include "service/rpc/update_proto.h"
#include "service/rpc/wait_round.h"
#include "service/rpc/watch_round.h"
#include "sparse/status.h"

namespace sparseagg {
namespace {

constexpr int kPageSizeDefault = 50;
constexpr int kPageSizeMax = 1000;

// Reports and large uploads use the back end's own threads; two let a short one pass a long one.
constexpr int kBackgroundThreads = 2;

// They wait for the disk most of the time: as many updates can be in one commit.
constexpr int kCommitThreads = 64;

// A call whose answer is there when its handler returns.
class UnaryCall : public grpc::ServerUnaryReactor {
 public:
  explicit UnaryCall(CallCounter& calls) : call_entry_(calls) {}
  void OnDone() override { delete this; }

 private:
  CallCounter::Entry call_entry_;
};

// Runs `handler`, which returns a Status, on this thread.
template <typename Handler>
grpc::ServerUnaryReactor* Run(CallCounter& calls, Handler handler) {
  auto* call = new UnaryCall(calls);
  call->Finish(ToGrpcStatus(handler()));
  return call;
}

// The same on a thread of `background`.
template <typename Handler>
grpc::ServerUnaryReactor* RunIn(Background& background, CallCounter& calls, Handler handler) {
  auto* call = new UnaryCall(calls);
  background.Run([call, handler = std::move(handler)] { call->Finish(ToGrpcStatus(handler())); });
  return call;
}

// A handler for Run() out of one that returns a StatusOr of what ToProto() turns into the response.
template <typename Response, typename Handler>
auto Answer(Response* response, Handler handler) {
  return [response, handler = std::move(handler)]() -> absl::Status {
    auto answer = handler();
    if (answer.ok()) *response = ToProto(*answer);
    return answer.status();
  };
}

// gRPC's threads do not wait for a disk. `handler` must not refer to the caller's variables.
template <typename Handler>
grpc::ServerUnaryReactor* RunAbout(const std::string& round, Engine& engine, Background& commits,
                                   CallCounter& calls, Handler handler) {
  if (engine.WaitsForDisk(round)) return RunIn(commits, calls, std::move(handler));
  return Run(calls, std::move(handler));
}

absl::StatusOr<RoundSnapshot> Create(Engine& engine, const v1::CreateRoundRequest& request,
                                     Durability default_durability) {
  CreateRoundArgs args{
      .round_id = request.round_id(), .request_id = request.request_id(), .spec = {}};
  SPARSEAGG_ASSIGN_OR_RETURN(args.spec, FromProto(request.spec(), default_durability));
  return engine.CreateRound(args);
}

absl::StatusOr<Receipt> Submit(Engine& engine, const v1::SubmitUpdateRequest& request) {
  SPARSEAGG_ASSIGN_OR_RETURN(const IncomingUpdate update, FromProto(request));
  return engine.Submit(update.header, update.tensors);
}

absl::Status List(Engine& engine, const v1::ListRoundsRequest& request,
                  v1::ListRoundsResponse& response) {
  if (request.page_size() < 0) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "INVALID_PAGE_SIZE",
        absl::StrCat("page_size is ", request.page_size(), "; use 0 to ", kPageSizeMax));
  }
  const int page_size =
      request.page_size() == 0 ? kPageSizeDefault : std::min(request.page_size(), kPageSizeMax);
  // One more than the page tells whether there is a next one. The token is the last name of the
  // page before.
  std::vector<RoundSnapshot> rounds =
      engine.ListRounds(request.page_token(), static_cast<size_t>(page_size) + 1);
  const bool more = rounds.size() > static_cast<size_t>(page_size);
  if (more) rounds.pop_back();
  for (const RoundSnapshot& round : rounds) *response.add_rounds() = ToProto(round);
  if (more) response.set_next_page_token(rounds.back().name);
  return absl::OkStatus();
}

}  // namespace

AggregationService::AggregationService(Engine& engine, v1::ServerInfo info)
    : engine_(engine),
      info_(std::move(info)),
      background_(kBackgroundThreads),
      commits_(kCommitThreads) {}

grpc::ServerUnaryReactor* AggregationService::CreateRound(grpc::CallbackServerContext* /*context*/,
                                                          const v1::CreateRoundRequest* request,
                                                          v1::Round* response) {
  const auto default_durability = static_cast<Durability>(info_.default_durability());
  // Opening the books of a durable round waits for a disk, and what it asks for is not known yet.
  return RunIn(commits_, calls_, Answer(response, [this, request, default_durability] {
                 return Create(engine_, *request, default_durability);
               }));
}

grpc::ServerUnaryReactor* AggregationService::GetRound(grpc::CallbackServerContext* /*context*/,
                                                       const v1::GetRoundRequest* request,
                                                       v1::Round* response) {
  return Run(calls_, Answer(response, [&] { return engine_.GetRound(request->name()); }));
}

grpc::ServerUnaryReactor* AggregationService::ListRounds(grpc::CallbackServerContext* /*context*/,
                                                         const v1::ListRoundsRequest* request,
                                                         v1::ListRoundsResponse* response) {
  return Run(calls_, [&] { return List(engine_, *request, *response); });
}

grpc::ServerUnaryReactor* AggregationService::SealRound(grpc::CallbackServerContext* /*context*/,
                                                        const v1::SealRoundRequest* request,
                                                        v1::Round* response) {
  return RunAbout(request->name(), engine_, commits_, calls_,
                  Answer(response, [this, request] { return engine_.SealRound(request->name()); }));
}

grpc::ServerUnaryReactor* AggregationService::AbortRound(grpc::CallbackServerContext* /*context*/,
                                                         const v1::AbortRoundRequest* request,
                                                         v1::Round* response) {
  return RunAbout(request->name(), engine_, commits_, calls_, Answer(response, [this, request] {
                    return engine_.AbortRound(request->name());
                  }));
}

grpc::ServerUnaryReactor* AggregationService::DeleteRound(grpc::CallbackServerContext* /*context*/,
                                                          const v1::DeleteRoundRequest* request,
                                                          google::protobuf::Empty* /*response*/) {
  return RunAbout(request->name(), engine_, commits_, calls_,
                  [this, request] { return engine_.DeleteRound(request->name()); });
}

grpc::ServerWriteReactor<v1::Round>* AggregationService::WatchRound(
    grpc::CallbackServerContext* /*context*/, const v1::WatchRoundRequest* request) {
  return StartWatchRound(engine_, drain_list_, calls_, *request);
}

grpc::ServerUnaryReactor* AggregationService::WaitRound(grpc::CallbackServerContext* /*context*/,
                                                        const v1::WaitRoundRequest* request,
                                                        v1::Round* response) {
  return StartWaitRound(engine_, drain_list_, calls_, *request, response);
}

grpc::ServerUnaryReactor* AggregationService::SubmitUpdate(grpc::CallbackServerContext* /*context*/,
                                                           const v1::SubmitUpdateRequest* request,
                                                           v1::Receipt* response) {
  return RunAbout(request->header().round(), engine_, commits_, calls_,
                  Answer(response, [this, request] { return Submit(engine_, *request); }));
}

grpc::ServerBidiReactor<v1::StreamUpdatesRequest, v1::StreamUpdatesResponse>*
AggregationService::StreamUpdates(grpc::CallbackServerContext* /*context*/) {
  return StartStreamUpdates(engine_, background_, commits_, drain_list_, calls_);
}

grpc::ServerWriteReactor<v1::GetAggregateResponse>* AggregationService::GetAggregate(
    grpc::CallbackServerContext* /*context*/, const v1::GetAggregateRequest* request) {
  return StartGetAggregate(engine_, calls_, *request);
}

grpc::ServerBidiReactor<v1::ReduceRequest, v1::ReduceResponse>* AggregationService::Reduce(
    grpc::CallbackServerContext* /*context*/) {
  return StartReduce(engine_, background_, calls_);
}

grpc::ServerUnaryReactor* AggregationService::GetServerInfo(
    grpc::CallbackServerContext* /*context*/, const v1::GetServerInfoRequest* /*request*/,
    v1::ServerInfo* response) {
  return Run(calls_, [&] {
    *response = info_;
    return absl::OkStatus();
  });
}

}  // namespace sparseagg

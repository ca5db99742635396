#include "service/rpc/aggregation_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/partial/partial_body.h"
#include "service/rpc/reduce.h"
#include "service/rpc/result/get_aggregate.h"
#include "service/rpc/result/get_divided.h"
#include "service/rpc/result/get_partial.h"
#include "service/rpc/stream/stream_updates.h"
#include "service/rpc/stream/upload_chunk.h"
#include "service/rpc/unary_call.h"
#include "service/rpc/wait_round.h"
#include "service/rpc/watch_round.h"
#include "service/rpc/wire/message_bytes.h"
#include "service/rpc/wire/received_update.h"
#include "service/rpc/wire/round_proto.h"
#include "service/rpc/wire/status_table.h"
#include "service/rpc/wire/update_proto.h"

namespace sparseagg {
namespace {

constexpr int kPageSizeDefault = 50;
constexpr int kPageSizeMax = 1000;
// The default message limit of gRPC clients is 4 MiB.
constexpr size_t kPageBytesMax = size_t{3} << 20;

// Reports and large uploads compute on the back end's threads; two threads here let a short job
// overtake a long one.
constexpr int kBackgroundThreads = 2;

// These threads mostly wait for the disk; their number is that of the updates that one commit can
// hold.
constexpr int kCommitThreads = 64;

// A verification may take hours, so they run one at a time. The limit of each tenant, waiting ones
// included.
constexpr size_t kVerificationsMax = 5;
constexpr uint64_t kVerificationsRetryMs = 10'000;

// Short beside the idle limits, so that a stream ends close to its limit.
std::chrono::milliseconds TimeCheckInterval(const Limits& limits) {
  const uint64_t stream_idle_ms = limits.stream_idle_ms == 0 ? 4000 : limits.stream_idle_ms;
  const uint64_t shortest_ms = std::min(limits.upload_idle_ms, stream_idle_ms);
  return std::chrono::milliseconds(std::clamp<uint64_t>(shortest_ms / 4, 10, 1000));
}

// Makes a handler for Run() from one that returns a StatusOr of a value that ToProto() turns into
// the response.
template <typename Handler>
auto Answer(grpc::ByteBuffer* response, Handler handler) {
  return [response, handler = std::move(handler)]() -> absl::Status {
    auto answer = handler();
    if (answer.ok()) *response = ToBytes(ToProto(*answer));
    return answer.status();
  };
}

// Runs `handler` on another thread, because gRPC's threads must not wait for the disk. `handler`
// must not refer to the caller's variables.
template <typename Handler>
grpc::ServerUnaryReactor* RunForRound(const std::string& round, Engine& engine, Background& commits,
                                      CallCounter& calls, Handler handler) {
  if (engine.WaitsForDisk(round)) return RunIn(commits, calls, std::move(handler));
  return Run(calls, std::move(handler));
}

// Aborts the round of a leaf whose root does without it.
absl::StatusOr<RoundSnapshot> GiveUpLeaf(Engine& engine, const std::string& name) {
  SPARSEAGG_ASSIGN_OR_RETURN(const RoundSnapshot round, engine.GetRound(name));
  if (round.spec.tree.self.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_SPEC",
                     absl::StrCat("given_up is for the round of a leaf, and round \"", round.name,
                                  "\" is none; abort it without"));
  }
  return engine.FailRound(
      name,
      absl::StrCat(std::string(kLeafGivenUp), ": the root has ended the round without leaf \"",
                   round.spec.tree.self, "\", so no update that was sent to it is counted"));
}

absl::StatusOr<RoundSnapshot> Create(Engine& engine, const grpc::ByteBuffer& message,
                                     Durability default_durability) {
  v1::CreateRoundRequest request;
  SPARSEAGG_RETURN_IF_ERROR(ReadRequest(MessageBytes(message).chain(), message.Length(), &request));
  CreateRoundArgs args{
      .round_id = request.round_id(), .request_id = request.request_id(), .spec = {}};
  SPARSEAGG_ASSIGN_OR_RETURN(args.spec, FromProto(request.spec(), default_durability));
  return engine.CreateRound(args);
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
  // Adds the rounds one by one, because a round of a thousand tensors has 150 KB. The page token is
  // the last name of the page.
  std::string last = request.page_token();
  size_t bytes = 0;
  while (true) {
    const std::vector<RoundSnapshot> next = engine.ListRounds(last, 1);
    if (next.empty()) return absl::OkStatus();
    v1::Round round = ToProto(next.front());
    bytes += round.ByteSizeLong();
    const bool is_full = response.rounds_size() == page_size ||
                         (response.rounds_size() > 0 && bytes > kPageBytesMax);
    if (is_full) break;
    last = round.name();
    *response.add_rounds() = std::move(round);
  }
  response.set_next_page_token(last);
  return absl::OkStatus();
}

absl::Status Verify(Engine& engine, const std::string& name, grpc::CallbackServerContext& context,
                    grpc::ByteBuffer& response) {
  const auto cancelled = [&context] { return context.IsCancelled(); };
  if (cancelled()) return absl::CancelledError("cancelled by the caller");
  SPARSEAGG_ASSIGN_OR_RETURN(const Verification verified, engine.VerifyRound(name, cancelled));
  v1::VerifyRoundResponse answer = ToProto(verified);
  answer.set_name(name);
  response = ToBytes(answer);
  return absl::OkStatus();
}

absl::Status VerificationsFull() {
  return WithRetryAfter(MakeError(absl::StatusCode::kResourceExhausted, "VERIFICATIONS_FULL",
                                  absl::StrCat(kVerificationsMax,
                                               " verifications of this tenant are running or "
                                               "waiting; try again when one has finished")),
                        kVerificationsRetryMs);
}

}  // namespace

AggregationService::AggregationService(Engine& engine, v1::ServerInfo info, ServerSecurity security)
    : authoriser_(engine, std::move(security)),
      info_(std::move(info)),
      background_(kBackgroundThreads, kBackgroundThreadName),
      commits_(kCommitThreads, "commit"),
      verifications_(kVerificationsMax),
      time_checks_(TimeCheckInterval(engine.limits()),
                   [this] { drain_list_.CheckTimes(std::chrono::steady_clock::now()); }) {}

grpc::ServerUnaryReactor* AggregationService::CreateRound(grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer* request,
                                                          grpc::ByteBuffer* response) noexcept {
  const auto call = authoriser_.Authorise(*context, "CreateRound");
  if (!call.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, call.status());
  const auto default_durability = static_cast<Durability>(info_.default_durability());
  // Creating a durable round waits for the disk, and the request is not parsed yet.
  return RunIn(commits_, calls_,
               [this, call = *call, request, response, default_durability]() -> absl::Status {
                 const auto acting = authoriser_.ActingFor(call.caller);
                 SPARSEAGG_ASSIGN_OR_RETURN(const RoundSnapshot round,
                                            Create(*call.engine, *request, default_durability));
                 *response = ToBytes(ToProto(round));
                 return absl::OkStatus();
               });
}

grpc::ServerUnaryReactor* AggregationService::GetRound(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request,
                                                       grpc::ByteBuffer* response) noexcept {
  const auto call = authoriser_.Authorise(*context, "GetRound");
  if (!call.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, call.status());
  return Run(calls_, Answer(response, [&]() -> absl::StatusOr<RoundSnapshot> {
               SPARSEAGG_ASSIGN_OR_RETURN(const auto get, ReadSmall<v1::GetRoundRequest>(*request));
               return call->engine->GetRound(get.name());
             }));
}

grpc::ServerUnaryReactor* AggregationService::ListRounds(grpc::CallbackServerContext* context,
                                                         const grpc::ByteBuffer* request,
                                                         grpc::ByteBuffer* response) noexcept {
  const auto call = authoriser_.Authorise(*context, "ListRounds");
  if (!call.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, call.status());
  return Run(calls_, [&]() -> absl::Status {
    SPARSEAGG_ASSIGN_OR_RETURN(const auto list, ReadSmall<v1::ListRoundsRequest>(*request));
    v1::ListRoundsResponse page;
    SPARSEAGG_RETURN_IF_ERROR(List(*call->engine, list, page));
    *response = ToBytes(page);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AggregationService::SealRound(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request,
                                                        grpc::ByteBuffer* response) noexcept {
  const auto call = authoriser_.Authorise(*context, "SealRound");
  if (!call.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, call.status());
  const auto seal = ReadSmall<v1::SealRoundRequest>(*request);
  if (!seal.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, seal.status());
  return RunForRound(seal->name(), *call->engine, commits_, calls_,
                     Answer(response, [this, call = *call, name = seal->name()] {
                       const auto acting = authoriser_.ActingFor(call.caller);
                       return call.engine->SealRound(name);
                     }));
}

grpc::ServerUnaryReactor* AggregationService::AbortRound(grpc::CallbackServerContext* context,
                                                         const grpc::ByteBuffer* request,
                                                         grpc::ByteBuffer* response) noexcept {
  const auto call = authoriser_.Authorise(*context, "AbortRound");
  if (!call.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, call.status());
  const auto abort = ReadSmall<v1::AbortRoundRequest>(*request);
  if (!abort.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, abort.status());
  return RunForRound(
      abort->name(), *call->engine, commits_, calls_,
      Answer(response, [this, call = *call, abort = *abort]() -> absl::StatusOr<RoundSnapshot> {
        const auto acting = authoriser_.ActingFor(call.caller);
        if (!abort.given_up()) return call.engine->AbortRound(abort.name());
        return GiveUpLeaf(*call.engine, abort.name());
      }));
}

grpc::ServerUnaryReactor* AggregationService::DeleteRound(grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer* request,
                                                          grpc::ByteBuffer* response) noexcept {
  const auto call = authoriser_.Authorise(*context, "DeleteRound");
  if (!call.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, call.status());
  const auto erase = ReadSmall<v1::DeleteRoundRequest>(*request);
  if (!erase.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, erase.status());
  *response = ToBytes(google::protobuf::Empty());
  return RunForRound(erase->name(), *call->engine, commits_, calls_,
                     [this, call = *call, name = erase->name()] {
                       const auto acting = authoriser_.ActingFor(call.caller);
                       return call.engine->DeleteRound(name);
                     });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* AggregationService::WatchRound(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) noexcept {
  using Reactor = grpc::ServerWriteReactor<grpc::ByteBuffer>;
  auto call = authoriser_.AuthoriseWait(*context, "WatchRound");
  if (!call.ok()) return Refuse<Reactor>(calls_, call.status());
  const auto watch = ReadSmall<v1::WatchRoundRequest>(*request);
  if (!watch.ok()) return Refuse<Reactor>(calls_, watch.status());
  return StartWatchRound(*context, *std::move(call), drain_list_, calls_, *watch);
}

grpc::ServerUnaryReactor* AggregationService::WaitRound(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request,
                                                        grpc::ByteBuffer* response) noexcept {
  auto call = authoriser_.AuthoriseWait(*context, "WaitRound");
  if (!call.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, call.status());
  const auto wait = ReadSmall<v1::WaitRoundRequest>(*request);
  if (!wait.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, wait.status());
  return StartWaitRound(*std::move(call), drain_list_, calls_, *wait, response);
}

grpc::ServerUnaryReactor* AggregationService::SubmitUpdate(grpc::CallbackServerContext* context,
                                                           const grpc::ByteBuffer* request,
                                                           grpc::ByteBuffer* response) noexcept {
  const auto call = authoriser_.Authorise(*context, "SubmitUpdate");
  if (!call.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, call.status());
  // gRPC keeps the request's bytes until the call is done.
  const auto bytes = std::make_shared<MessageBytes>(*request);
  auto read = ReadSubmitUpdate(bytes->chain());
  if (!read.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, read.status());
  const auto update = std::make_shared<ReceivedUpdate>(*std::move(read));
  const absl::Status theirs =
      call->CheckContributor(update->header.round(), update->header.contributor());
  if (!theirs.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, theirs);
  return RunForRound(update->header.round(), *call->engine, commits_, calls_,
                     [call = *call, bytes, update, response]() -> absl::Status {
                       SPARSEAGG_ASSIGN_OR_RETURN(const auto tensors, EncodedTensorsOf(*update));
                       SPARSEAGG_RETURN_IF_ERROR(call.CheckBody(IsPartialBody(tensors)));
                       SPARSEAGG_ASSIGN_OR_RETURN(
                           const Receipt receipt,
                           call.engine->Submit(FromProto(update->header), tensors));
                       *response = ToBytes(ToProto(receipt));
                       return absl::OkStatus();
                     });
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* AggregationService::StreamUpdates(
    grpc::CallbackServerContext* context) noexcept {
  using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;
  auto call = authoriser_.AuthoriseStream(*context, "StreamUpdates");
  if (!call.ok()) return Refuse<Reactor>(calls_, call.status());
  return StartStreamUpdates(*context, *std::move(call), background_, commits_, drain_list_, calls_);
}

grpc::ServerUnaryReactor* AggregationService::UploadChunk(grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer* request,
                                                          grpc::ByteBuffer* response) noexcept {
  const auto call = authoriser_.Authorise(*context, "UploadChunk");
  if (!call.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, call.status());
  const auto bytes = std::make_shared<MessageBytes>(*request);
  auto read = ReadUploadChunk(bytes->chain());
  if (!read.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, read.status());
  const absl::Status theirs =
      call->CheckContributor(read->begin.header().round(), read->begin.header().contributor());
  if (!theirs.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, theirs);
  auto* reactor = new UnaryCall(calls_);  // NOLINT(bugprone-unhandled-exception-at-new)
  const auto answer = [reactor, response](absl::StatusOr<v1::UploadChunkResponse> answer) {
    if (answer.ok()) *response = ToBytes(*answer);
    reactor->Finish(ToGrpcStatus(answer.status()));
  };
  const auto chunk = std::make_shared<ReceivedUploadChunk>(*std::move(read));
  commits_.Run([this, call = *call, bytes, chunk, answer] {
    auto upload = AddChunk(call, *chunk);
    if (!upload.ok()) return answer(upload.status());
    // Decoding a large update is long work; a durable one then waits for the disk.
    const bool is_long = IsComplete(**upload) && !(*upload)->arrived() &&
                         !call.engine->WaitsForDisk(chunk->begin.header().round());
    if (!is_long) return answer(AnswerToChunk(**upload));
    background_.Run([upload = *std::move(upload), answer] { answer(AnswerToChunk(*upload)); });
  });
  return reactor;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* AggregationService::GetAggregate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) noexcept {
  using Reactor = grpc::ServerWriteReactor<grpc::ByteBuffer>;
  const auto call = authoriser_.Authorise(*context, "GetAggregate");
  if (!call.ok()) return Refuse<Reactor>(calls_, call.status());
  v1::GetAggregateRequest get;
  const absl::Status read = ReadRequest(MessageBytes(*request).chain(), request->Length(), &get);
  if (!read.ok()) return Refuse<Reactor>(calls_, read);
  return StartGetAggregate(*context, *call->engine, background_, drain_list_, calls_,
                           std::move(get));
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* AggregationService::GetPartial(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) noexcept {
  using Reactor = grpc::ServerWriteReactor<grpc::ByteBuffer>;
  const auto call = authoriser_.Authorise(*context, "GetPartial");
  if (!call.ok()) return Refuse<Reactor>(calls_, call.status());
  const auto get = ReadSmall<v1::GetPartialRequest>(*request);
  if (!get.ok()) return Refuse<Reactor>(calls_, get.status());
  return StartGetPartial(*context, *call->engine, background_, drain_list_, calls_, *get);
}

grpc::ServerUnaryReactor* AggregationService::SubmitPartial(grpc::CallbackServerContext* context,
                                                            const grpc::ByteBuffer* request,
                                                            grpc::ByteBuffer* response) noexcept {
  const auto call = authoriser_.Authorise(*context, "SubmitPartial");
  if (!call.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, call.status());
  // Reading and merging may take long, whatever the durability.
  return RunIn(commits_, calls_, [call = *call, request, response]() -> absl::Status {
    v1::SubmitPartialRequest submit;
    SPARSEAGG_RETURN_IF_ERROR(
        ReadRequest(MessageBytes(*request).chain(), request->Length(), &submit));
    const std::string_view partial = submit.partial();
    const EncodedTensor body = {PartialHeader(partial.size()), {}, ByteChain(&partial, 1)};
    SPARSEAGG_ASSIGN_OR_RETURN(const Receipt receipt,
                               call.engine->Submit(FromProto(submit.header()), {body}));
    *response = ToBytes(ToProto(receipt));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AggregationService::ReadResult(grpc::CallbackServerContext* context,
                                                         const grpc::ByteBuffer* request,
                                                         grpc::ByteBuffer* response) noexcept {
  const auto call = authoriser_.Authorise(*context, "ReadResult");
  if (!call.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, call.status());
  v1::ReadResultRequest read;
  const absl::Status status = ReadRequest(MessageBytes(*request).chain(), request->Length(), &read);
  if (!status.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, status);
  if (auto divided = FindDivided(*call->engine, read.result().name()); divided != nullptr) {
    return StartReadDivided(*call->engine, calls_, std::move(divided), read, response);
  }
  const bool is_long = TakesLong(*call->engine, read.result());
  auto handler = [engine = call->engine, read = std::move(read), response] {
    return sparseagg::ReadResult(*engine, read, *response);
  };
  return is_long ? RunIn(background_, calls_, std::move(handler)) : Run(calls_, std::move(handler));
}

grpc::ServerUnaryReactor* AggregationService::VerifyRound(grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer* request,
                                                          grpc::ByteBuffer* response) noexcept {
  const auto call = authoriser_.Authorise(*context, "VerifyRound");
  if (!call.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, call.status());
  const auto verify = ReadSmall<v1::VerifyRoundRequest>(*request);
  if (!verify.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, verify.status());
  // A lack of memory ends the process, as noexcept says.
  auto* reactor = new UnaryCall(calls_);  // NOLINT(bugprone-unhandled-exception-at-new)
  const bool taken = verifications_.Run(
      call->caller.tenant,
      [reactor, context, engine = call->engine, name = verify->name(), response] {
        reactor->Finish(ToGrpcStatus(Verify(*engine, name, *context, *response)));
      });
  if (!taken) reactor->Finish(ToGrpcStatus(VerificationsFull()));
  return reactor;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* AggregationService::Reduce(
    grpc::CallbackServerContext* context) noexcept {
  using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;
  const auto call = authoriser_.Authorise(*context, "Reduce");
  if (!call.ok()) return Refuse<Reactor>(calls_, call.status());
  return StartReduce(*context, *call->engine, background_, drain_list_, calls_);
}

grpc::ServerUnaryReactor* AggregationService::GetServerInfo(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* /*request: it says nothing*/,
    grpc::ByteBuffer* response) noexcept {
  const auto call = authoriser_.Authorise(*context, "GetServerInfo");
  if (!call.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, call.status());
  return Run(calls_, [&] {
    v1::ServerInfo info = info_;
    if (call->caller.roles.Has(Role::kOperator)) {
      const EngineStats stats = call->engine->Stats();
      *info.mutable_load() = ToProto(stats);
      for (const LeafStatus& leaf : stats.leaves) *info.add_leaves() = ToProto(leaf);
      info.mutable_load()->set_calls(calls_.count());
    }
    *response = ToBytes(info);
    return absl::OkStatus();
  });
}

}  // namespace sparseagg

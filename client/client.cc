#include "client/client.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/client_impl.h"
#include "client/reduce_call.h"
#include "client/result_reader.h"
#include "client/selections.h"
#include "client/transport/address.h"
#include "client/transport/call.h"
#include "client/transport/credentials.h"
#include "client/transport/retry.h"
#include "client/wire/from_proto.h"
#include "client/wire/to_proto.h"
#include "proto/convert.h"

namespace sparseagg::client {
namespace {

constexpr int kListPageSize = 1000;
// The bounds of one WaitRound call, which otherwise waits for call_timeout_ms. The server waits for
// at most 300 s; shorter waits detect a dead server earlier.
constexpr uint64_t kWaitMsMin = 1000;
constexpr uint64_t kWaitMsMax = 30'000;
// The extra time for an answer to arrive after the time limit of Wait().
constexpr uint64_t kLateMs = 1000;

std::string RandomId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&id, absl::Hex(random(), absl::kZeroPad8));
  return id;
}

absl::Status NotPublished(const RoundInfo& round, uint64_t timeout_ms) {
  const std::string advice = round.stall.empty() ? "seal it, or wait longer" : round.stall;
  return MakeError(
      absl::StatusCode::kDeadlineExceeded, "NO_ANSWER_IN_TIME",
      absl::StrCat(round.name, " was not published within ", timeout_ms, " ms; ", advice));
}

}  // namespace

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() {
  // In a forked child the destructor would wait for gRPC threads that do not exist there, and the
  // sockets belong to the parent. So the memory is leaked.
  if (!CheckProcess(impl_->caller.process).ok()) static_cast<void>(impl_.release());
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& target,
                                                        ClientOptions options) {
  if (options.chunk_bytes == 0) {
    return absl::InvalidArgumentError("chunk_bytes is 0; it must be at least 1");
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const Address address, ParseAddress(target));
  static const pid_t kFirstProcess = getpid();
  SPARSEAGG_RETURN_IF_ERROR(CheckProcess(kFirstProcess));
  auto impl = std::make_unique<Impl>();
  const bool by_tls = options.tls.has_value() || address.tls.value_or(false);
  impl->caller = {.route = RouteTo(address, by_tls), .options = std::move(options)};
  SPARSEAGG_ASSIGN_OR_RETURN(const auto credentials,
                             MakeChannelCredentials(address, impl->options));
  impl->connections.emplace(
      [route = impl->caller.route, credentials] { return MakeChannel(route, credentials); },
      impl->options.connections_max);
  impl->stub = &impl->connections->first();
  ClientOptions leaf_options = impl->options;
  // A leaf is called as the root is, whose address may have asked for TLS.
  if (by_tls && !leaf_options.tls.has_value()) leaf_options.tls.emplace();
  impl->leaves.emplace(std::move(leaf_options));
  if (!impl->options.sleep) {
    impl->caller.options.sleep = [&channel = impl->connections->first_channel()](uint64_t ms) {
      SleepWhileConnecting(channel, ms);
    };
  }
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

const std::string& Client::target() const { return impl_->caller.route.target; }

absl::StatusOr<RoundInfo> Client::CreateRound(const NewRound& round) {
  v1::CreateRoundRequest request;
  request.set_round_id(round.id);
  request.set_request_id(round.request_id.empty() ? RandomId() : round.request_id);
  request.mutable_spec()->set_durability(static_cast<v1::Durability>(round.durability));
  for (const TensorSpec& tensor : round.tensors) {
    *request.mutable_spec()->add_tensors() = ToProto(tensor);
  }
  *request.mutable_spec()->mutable_policy() = ToProto(round.policy);
  request.mutable_spec()->set_keep_updates_until_deleted(round.keep_updates);
  request.mutable_spec()->set_publish_partial(round.publish_partial);
  if (round.owners) request.mutable_spec()->mutable_tree()->set_owners(true);
  return impl_->RoundCall(request, &Stub::CreateRound);
}

absl::StatusOr<RoundInfo> Client::GetRound(const std::string& round) {
  return impl_->NamedRoundCall(round, &Stub::GetRound);
}

absl::StatusOr<RoundInfo> Client::Seal(const std::string& round) {
  return impl_->NamedRoundCall(round, &Stub::SealRound);
}

absl::StatusOr<RoundInfo> Client::Abort(const std::string& round) {
  return impl_->NamedRoundCall(round, &Stub::AbortRound);
}

absl::Status Client::Delete(const std::string& round) {
  v1::DeleteRoundRequest request;
  request.set_name(RoundName(round));
  RetryLoop retry(impl_->options, impl_->short_call());
  impl_->leaves->Forget(request.name());
  const absl::Status status = impl_
                                  ->Unary<google::protobuf::Empty>(
                                      retry,
                                      [&](auto* context, auto* response) {
                                        return impl_->stub->DeleteRound(context, request, response);
                                      })
                                  .status();
  // An earlier attempt may have deleted the round, and only its answer was lost.
  return absl::IsNotFound(status) && retry.repeated() ? absl::OkStatus() : status;
}

absl::StatusOr<std::vector<RoundInfo>> Client::ListRounds() {
  std::vector<RoundInfo> rounds;
  v1::ListRoundsRequest request;
  request.set_page_size(kListPageSize);
  do {
    SPARSEAGG_ASSIGN_OR_RETURN(const v1::ListRoundsResponse page,
                               impl_->Unary<v1::ListRoundsResponse>(
                                   impl_->short_call(), [&](auto* context, auto* response) {
                                     return impl_->stub->ListRounds(context, request, response);
                                   }));
    for (const v1::Round& round : page.rounds()) {
      SPARSEAGG_ASSIGN_OR_RETURN(RoundInfo info, FromProto(round));
      rounds.push_back(std::move(info));
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return rounds;
}

absl::StatusOr<bool> Client::Impl::WatchOnce(
    const std::string& round, RetryLoop& retry,
    const std::function<bool(const RoundInfo&)>& on_change) {
  v1::WatchRoundRequest request;
  request.set_name(RoundName(round));
  grpc::ClientContext context;
  SPARSEAGG_RETURN_IF_ERROR(Prepare(context, caller, 0));
  const Connections::Lease connection = connections->ForWait();
  const auto stream = connection->WatchRound(&context, request);
  v1::Round message;
  absl::StatusOr<bool> outcome = false;
  while (outcome.ok() && !*outcome && stream->Read(&message)) {
    retry.MadeProgress();
    absl::StatusOr<RoundInfo> info = FromProto(message);
    if (info.ok()) {
      outcome = !on_change(*info) || IsFinal(info->state);
    } else {
      outcome = info.status();
    }
  }
  if (!outcome.ok() || *outcome) {
    context.TryCancel();
    stream->Finish();
    return outcome;
  }
  SPARSEAGG_RETURN_IF_ERROR(ToStatus(stream->Finish(), caller.route));
  return true;
}

absl::Status Client::Watch(const std::string& round,
                           const std::function<bool(const RoundInfo&)>& on_change) {
  RetryLoop retry(impl_->options);
  for (;;) {
    const absl::StatusOr<bool> ended = impl_->WatchOnce(round, retry, on_change);
    if (ended.ok()) return absl::OkStatus();
    if (!retry.WaitToRetry(ended.status())) return impl_->Explain(ended.status(), round);
  }
}

absl::StatusOr<v1::Round> Client::Impl::WaitOnce(v1::WaitRoundRequest& request, uint64_t left_ms) {
  uint64_t wait_ms = std::clamp(options.call_timeout_ms, kWaitMsMin, kWaitMsMax);
  if (options.call_timeout_ms == 0) wait_ms = kWaitMsMax;
  uint64_t attempt_ms = options.call_timeout_ms == 0 ? 0 : wait_ms + options.call_timeout_ms;
  if (left_ms > 0) {
    wait_ms = std::min(wait_ms, left_ms);
    // The limit also holds for a server that does not answer.
    const uint64_t latest_ms = left_ms + kLateMs;
    attempt_ms = attempt_ms == 0 ? latest_ms : std::min(attempt_ms, latest_ms);
  }
  request.mutable_timeout()->set_seconds(static_cast<int64_t>(wait_ms / 1000));
  request.mutable_timeout()->set_nanos(static_cast<int32_t>(wait_ms % 1000 * 1'000'000));
  const Connections::Lease connection = connections->ForWait();
  return Attempt<v1::Round>(attempt_ms, [&](auto* context, auto* response) {
    return connection->WaitRound(context, request, response);
  });
}

absl::StatusOr<RoundInfo> Client::Wait(const std::string& round, uint64_t timeout_ms) {
  v1::WaitRoundRequest request;
  request.set_name(RoundName(round));
  RoundInfo asked;
  asked.name = request.name();
  RetryLoop retry(impl_->options, {timeout_ms, 0});
  for (;;) {
    const uint64_t left_ms = retry.attempt_ms();
    const auto answer = impl_->WaitOnce(request, left_ms);
    if (!answer.ok()) {
      const bool silent = absl::IsDeadlineExceeded(answer.status());
      // While there is time left, a server that does not answer counts as unavailable, so that the
      // call is repeated.
      const absl::Status why =
          silent ? MakeError(absl::StatusCode::kUnavailable, ErrorReason(answer.status()),
                             std::string(answer.status().message()))
                 : answer.status();
      if (retry.WaitToRetry(why)) continue;
      if (silent && timeout_ms > 0) return NotPublished(asked, timeout_ms);
      return impl_->Explain(answer.status(), round);
    }
    retry.MadeProgress();
    SPARSEAGG_ASSIGN_OR_RETURN(RoundInfo info, FromProto(*answer));
    if (info.state == RoundState::kAborted) {
      return MakeError(absl::StatusCode::kAborted, "ROUND_ABORTED",
                       absl::StrCat(info.name, " was aborted: ",
                                    info.failure.empty() ? "by request" : info.failure));
    }
    if (IsFinal(info.state)) return info;
    if (left_ms == 1) return NotPublished(info, timeout_ms);
  }
}

absl::StatusOr<Result> Client::Impl::PullOnce(const v1::GetAggregateRequest& request,
                                              uint64_t timeout_ms, const Progress& progress) {
  grpc::ClientContext context;
  SPARSEAGG_RETURN_IF_ERROR(Prepare(context, caller, timeout_ms));
  const auto stream = stub->GetAggregate(&context, request);
  ResultReader reader(options.result_bytes_max, progress);
  v1::GetAggregateResponse message;
  absl::Status read;
  while (read.ok() && stream->Read(&message)) {
    read = message.has_header() ? reader.Start(message.header()) : reader.Append(message.chunk());
  }
  if (!read.ok()) {
    context.TryCancel();
    stream->Finish();
    return read;
  }
  SPARSEAGG_RETURN_IF_ERROR(ToStatus(stream->Finish(), caller.route));
  return std::move(reader).Finish();
}

absl::StatusOr<Result> Client::Pull(const std::string& round, const PullOptions& options) {
  v1::GetAggregateRequest request;
  request.set_name(RoundName(round));
  request.mutable_tensors()->Add(options.tensors.begin(), options.tensors.end());
  request.set_layout(options.dense ? v1::RESULT_LAYOUT_DENSE : v1::RESULT_LAYOUT_SPARSE);
  request.set_encoding(options.encoding);
  if (options.encoding == kAuto) {
    SPARSEAGG_ASSIGN_OR_RETURN(const bool knows_packed, impl_->ServerKnowsPacked());
    request.set_encoding(knows_packed ? kPacked : "");
  }
  if (!options.selections.empty()) {
    SPARSEAGG_ASSIGN_OR_RETURN(const RoundInfo info, GetRound(round));
    SPARSEAGG_RETURN_IF_ERROR(AddSelections(info, options.selections, request));
  }
  RetryLoop retry(impl_->options, impl_->transfer());
  for (;;) {
    absl::StatusOr<Result> result = impl_->PullOnce(request, retry.attempt_ms(), options.progress);
    if (result.ok()) return result;
    if (!retry.WaitToRetry(result.status())) return impl_->Explain(result.status(), round);
  }
}

absl::StatusOr<Result> Client::Reduce(const ReduceRequest& request) {
  SPARSEAGG_ASSIGN_OR_RETURN(const bool knows_packed, impl_->ServerKnowsPacked());
  RetryLoop retry(impl_->options, impl_->transfer());
  for (;;) {
    absl::StatusOr<Result> result =
        ReduceOnce(*impl_->stub, impl_->caller, request, retry.attempt_ms(), knows_packed);
    if (result.ok() || !retry.WaitToRetry(result.status())) return result;
  }
}

absl::StatusOr<Result> Client::Reduce(const std::vector<TensorSpec>& tensors,
                                      std::span<const Update> updates) {
  return Reduce(
      ReduceRequest{tensors,
                    updates.size(),
                    [updates](uint64_t i) -> absl::StatusOr<Update> { return updates[i]; },
                    false,
                    {}});
}

absl::StatusOr<Verification> Client::Verify(const std::string& round) {
  v1::VerifyRoundRequest request;
  request.set_name(RoundName(round));
  const auto verified =
      impl_->Unary<v1::VerifyRoundResponse>(impl_->transfer(), [&](auto* context, auto* response) {
        return impl_->stub->VerifyRound(context, request, response);
      });
  if (!verified.ok()) return impl_->Explain(verified.status(), round);
  return FromProto(*verified);
}

absl::StatusOr<ServerInfo> Client::Info() { return impl_->Info(); }

}  // namespace sparseagg::client

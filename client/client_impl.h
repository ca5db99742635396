// The state and helpers that the functions of Client share.
#ifndef SPARSEAGG_CLIENT_CLIENT_IMPL_H_
#define SPARSEAGG_CLIENT_CLIENT_IMPL_H_

#include <grpcpp/client_context.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "client/client.h"
#include "client/leaves.h"
#include "client/transport/call.h"
#include "client/transport/connections.h"
#include "client/transport/retry.h"
#include "client/transport/round_origins.h"
#include "client/wire/encoded_update.h"
#include "client/wire/from_proto.h"
#include "sparseagg/v1/aggregation.grpc.pb.h"

namespace sparseagg::client {

using Stub = v1::AggregationService::StubInterface;

inline constexpr char kAuto[] = "auto";
inline constexpr char kPacked[] = "coo.packed";

// A leaf that has been away for so long may have moved.
inline constexpr uint64_t kLeafAwayMs = 3000;

struct Client::Impl {
  Caller caller;
  const ClientOptions& options = caller.options;
  std::optional<Connections> connections;
  Stub* stub;  // of the first connection
  std::mutex mutex;
  std::optional<bool> knows_packed;
  RoundOrigins origins;
  std::optional<Leaves> leaves;
  std::atomic<bool> is_leaf = false;  // another client has made this one for a leaf

  // The limits of a short call, and of one that transfers data. Those of a leaf's client end soon
  // without a server, so that the root is asked where the leaf is.
  TimeLimits short_call() const { return {options.call_timeout_ms, asks_root() ? kLeafAwayMs : 0}; }
  TimeLimits transfer() const {
    uint64_t away_ms = options.call_timeout_ms;
    if (asks_root() && (away_ms == 0 || away_ms > kLeafAwayMs)) away_ms = kLeafAwayMs;
    return {options.transfer_timeout_ms, away_ms};
  }
  bool asks_root() const { return is_leaf && options.retry.attempts_max == 0; }

  // Runs `call(context, response)`, a unary call of the stub, until it succeeds or must not be
  // repeated.
  template <class Response, class Call>
  absl::StatusOr<Response> Unary(TimeLimits limits, Call call) {
    RetryLoop retry(options, limits);
    return Unary<Response>(retry, call);
  }

  template <class Response, class Call>
  absl::StatusOr<Response> Unary(RetryLoop& retry, Call call) {
    for (;;) {
      absl::StatusOr<Response> response = Attempt<Response>(retry.attempt_ms(), call);
      if (response.ok() || !retry.WaitToRetry(response.status())) return response;
    }
  }

  template <class Response, class Call>
  absl::StatusOr<Response> Attempt(uint64_t timeout_ms, Call call) {
    grpc::ClientContext context;
    SPARSEAGG_RETURN_IF_ERROR(Prepare(context, caller, timeout_ms));
    Response response;
    SPARSEAGG_RETURN_IF_ERROR(ToStatus(call(&context, &response), caller.route));
    return response;
  }

  absl::StatusOr<ServerInfo> Info() {
    SPARSEAGG_ASSIGN_OR_RETURN(
        const v1::ServerInfo info,
        Unary<v1::ServerInfo>(short_call(), [&](auto* context, auto* response) {
          return stub->GetServerInfo(context, v1::GetServerInfoRequest(), response);
        }));
    ServerInfo known = FromProto(info);
    const std::lock_guard lock(mutex);
    knows_packed = std::count(known.encodings.begin(), known.encodings.end(), kPacked) > 0;
    return known;
  }

  // Returns `error`, or ROUND_LOST if the server's epoch shows that it has lost the round.
  absl::Status Explain(const absl::Status& error, const std::string& round) {
    if (ErrorReason(error) != "ROUND_NOT_FOUND") return error;
    const std::optional<RoundOrigin> origin = origins.Find(RoundName(round));
    if (!origin.has_value()) return error;
    const absl::StatusOr<ServerInfo> now = Info();
    return now.ok() ? ExplainNotFound(error, *origin, now->epoch) : error;
  }

  // A unary call whose response is the round.
  template <class Request>
  absl::StatusOr<RoundInfo> RoundCall(const Request& request,
                                      grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                                   const Request&, v1::Round*)) {
    SPARSEAGG_ASSIGN_OR_RETURN(const v1::Round round,
                               Unary<v1::Round>(short_call(), [&](auto* context, auto* response) {
                                 return (stub->*method)(context, request, response);
                               }));
    absl::StatusOr<RoundInfo> info = FromProto(round);
    if (info.ok()) {
      origins.Record(info->name, {info->durability, info->epoch});
      leaves->Learn(info->name, info->tree);
    }
    return info;
  }

  template <class Request>
  absl::StatusOr<RoundInfo> NamedRoundCall(const std::string& round,
                                           grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                                        const Request&,
                                                                        v1::Round*)) {
    Request request;
    request.set_name(RoundName(round));
    absl::StatusOr<RoundInfo> info = RoundCall(request, method);
    if (!info.ok()) return Explain(info.status(), round);
    return info;
  }

  // Whether the server knows coo.packed, which is requested once. A server that does not say counts
  // as an old one; an error means that the server cannot be reached.
  absl::StatusOr<bool> ServerKnowsPacked();

  // Sends to this server, also if the contributor belongs to a leaf.
  absl::StatusOr<Receipt> SubmitHere(const std::string& round, const Update& update,
                                     const Progress& progress);
  std::vector<absl::StatusOr<Receipt>> SubmitManyHere(const std::string& round,
                                                      std::span<const Update> updates);
  // Returns the client of the contributor's leaf; null: this server takes the update.
  absl::StatusOr<std::shared_ptr<Client>> FindLeaf(const std::string& round,
                                                   const std::string& contributor);
  // Asks this server, the root, for the leaves of the round, after the error of one; once if that
  // does not answer.
  absl::Status AskForLeaves(const std::string& round, const absl::Status& error);
  // Asks for the leaves of the round if it may have some and they are not known.
  absl::Status LearnLeaves(const std::string& round, bool may_have_some);
  absl::StatusOr<Receipt> SubmitWhole(EncodedUpdate update, const Progress& progress);
  absl::StatusOr<Receipt> SubmitInChunks(const EncodedUpdate& update, const Progress& progress);
  // Reads what is missing of `partial`. Returns OK when it is complete.
  absl::Status ReadPartialOnce(const std::string& round, uint64_t timeout_ms,
                               const Progress& progress, PartialBytes& partial);
  absl::StatusOr<Result> PullOnce(const v1::GetAggregateRequest& request, uint64_t timeout_ms,
                                  const Progress& progress);
  // One call of WaitRound. `left_ms`: the rest of the caller's time limit; 0: no limit.
  absl::StatusOr<v1::Round> WaitOnce(v1::WaitRoundRequest& request, uint64_t left_ms);
  // One stream of WatchRound. Returns true if `on_change` returned false or the round is in a final
  // state.
  absl::StatusOr<bool> WatchOnce(const std::string& round, RetryLoop& retry,
                                 const std::function<bool(const RoundInfo&)>& on_change);
};

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_CLIENT_IMPL_H_

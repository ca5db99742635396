// Authentication, authorisation and per-tenant call limits: the first step of every handler. After
// it, a handler uses the engine of the caller's tenant only.
#ifndef SPARSEAGG_SERVICE_RPC_CALL_AUTHORISER_H_
#define SPARSEAGG_SERVICE_RPC_CALL_AUTHORISER_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "service/auth/caller.h"
#include "service/engine/engine.h"
#include "service/engine/tenant_engines.h"
#include "service/rpc/security.h"

namespace sparseagg {

// A call whose caller is authenticated and may make it.
struct AuthorisedCall {
  Caller caller;
  Engine* engine = nullptr;     // of the caller's tenant
  std::shared_ptr<void> place;  // counts a long call against its tenant's limit while it lives
  std::function<void(const absl::Status& why)> on_refused;
  // Returns whether the worker holds a task of this round and contributor (ServerSecurity). Null
  // for a caller that is no worker, and for an owner.
  std::function<bool(std::string_view round, std::string_view contributor)> holds_task;

  // PERMISSION_DENIED (CONTRIBUTOR_NOT_YOURS) unless the caller may send an update to `round` as
  // `contributor`.
  absl::Status CheckContributor(std::string_view round, std::string_view contributor) const;
  // PERMISSION_DENIED (WORKER_NOT_YOURS) unless the caller may acquire tasks as `worker`.
  absl::Status CheckWorker(std::string_view worker) const;
  // PERMISSION_DENIED (ROLE_MISSING) if the body of an update is a partial aggregate and the caller
  // may not call SubmitPartial.
  absl::Status CheckBody(bool is_partial) const;
};

// Thread-safe.
class CallAuthoriser {
 public:
  // `engine` must outlive the authoriser, and the authoriser its calls.
  CallAuthoriser(Engine& engine, ServerSecurity security);

  // Authenticates and authorises the caller. REQUIRES: `rpc` is a row of RpcRules(); it and
  // `context` outlive the authorised call. Errors: UNAUTHENTICATED, PERMISSION_DENIED.
  absl::StatusOr<AuthorisedCall> Authorise(const grpc::CallbackServerContext& context,
                                           std::string_view rpc);

  // The same for update streams, which tenant-streams-max limits: RESOURCE_EXHAUSTED
  // (TENANT_STREAMS_FULL) with a retry hint.
  absl::StatusOr<AuthorisedCall> AuthoriseStream(const grpc::CallbackServerContext& context,
                                                 std::string_view rpc);
  // The same for WaitRound, WatchRound and WaitTasks, which tenant-waits-max limits:
  // RESOURCE_EXHAUSTED (TENANT_WAITS_FULL) with a retry hint.
  absl::StatusOr<AuthorisedCall> AuthoriseWait(const grpc::CallbackServerContext& context,
                                               std::string_view rpc);

  // Attributes the changes of rounds that this thread makes to `caller`, for the audit log
  // (ServerSecurity::acting_for). Hold the handle on the thread that creates, seals, aborts or
  // deletes a round for the caller.
  std::shared_ptr<void> ActingFor(const Caller& caller) const {
    return security_.acting_for(caller);
  }

 private:
  // The calls of one kind that are in progress.
  struct Places {
    std::string_view reason;   // of the error
    std::string_view setting;  // with the limit
    std::string_view what;     // the calls, for the message
    uint64_t TenantLimits::*most;
    std::map<std::string, uint64_t> taken = {};  // by tenant; guarded by mutex_
  };

  absl::StatusOr<Caller> CallerOf(const grpc::CallbackServerContext& context) const;
  // Takes a place and stores it in call.place, whose destruction frees it.
  absl::Status TakePlace(Places& places, AuthorisedCall& call);

  const ServerSecurity security_;
  TenantEngines engines_;
  std::mutex mutex_;
  Places streams_{"TENANT_STREAMS_FULL", "tenant-streams-max", "streams",
                  &TenantLimits::streams_max};
  Places waits_{"TENANT_WAITS_FULL", "tenant-waits-max",
                "waiting calls (WaitRound, WatchRound, WaitTasks)", &TenantLimits::waits_max};
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_CALL_AUTHORISER_H_

// The first thing that every handler of the service does: find out who calls, and whether the call
// is theirs to make. What a handler does then, it does to the engine of the caller's tenant.
#ifndef SPARSEAGG_SERVICE_RPC_GATE_H_
#define SPARSEAGG_SERVICE_RPC_GATE_H_

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

// A call that may be made.
struct AdmittedCall {
  Caller caller;
  Engine* engine = nullptr;     // of the caller's tenant
  std::shared_ptr<void> place;  // of a call that lasts among those of its tenant, until it is gone
  std::function<void(const absl::Status& why)> on_refused;

  // Whether the caller may send an update as `contributor`: PERMISSION_DENIED
  // (CONTRIBUTOR_NOT_YOURS).
  absl::Status CheckContributor(std::string_view contributor) const;
};

// Thread-safe.
class Gate {
 public:
  // `engine` must outlive the gate, and the gate its calls.
  Gate(Engine& engine, ServerSecurity security);

  // `rpc` is a row of RpcRules(); it and `context` outlive the admitted call. UNAUTHENTICATED,
  // PERMISSION_DENIED.
  absl::StatusOr<AdmittedCall> Admit(const grpc::CallbackServerContext& context,
                                     std::string_view rpc);

  // The same for calls that last: RESOURCE_EXHAUSTED (TENANT_STREAMS_FULL), with a time to wait.
  absl::StatusOr<AdmittedCall> AdmitStream(const grpc::CallbackServerContext& context,
                                           std::string_view rpc);
  // And TENANT_WAITS_FULL.
  absl::StatusOr<AdmittedCall> AdmitWait(const grpc::CallbackServerContext& context,
                                         std::string_view rpc);

  // ServerSecurity::acting_for: to be held, on the thread that does the work, while a round is
  // created, sealed, aborted or deleted for the caller.
  std::shared_ptr<void> ActingFor(const Caller& caller) const {
    return security_.acting_for(caller);
  }

 private:
  // Calls of one kind that are under way.
  struct Places {
    std::string_view reason;   // of a refusal
    std::string_view setting;  // of the limit
    std::string_view what;     // are under way
    uint64_t TenantLimits::*most;
    std::map<std::string, uint64_t> taken = {};  // by tenant; guarded by mutex_
  };

  absl::StatusOr<Caller> CallerOf(const grpc::CallbackServerContext& context) const;
  // Takes a place, for as long as the call's lives.
  absl::Status TakePlace(Places& places, AdmittedCall& call);

  const ServerSecurity security_;
  TenantEngines engines_;
  std::mutex mutex_;
  Places streams_{"TENANT_STREAMS_FULL", "tenant-streams-max", "streams",
                  &TenantLimits::streams_max};
  Places waits_{"TENANT_WAITS_FULL", "tenant-waits-max", "waiting calls (WaitRound, WatchRound)",
                &TenantLimits::waits_max};
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_GATE_H_

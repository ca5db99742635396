// The permissions of callers: one row for each RPC; an RPC without a row is refused.
// docs/security.md shows the table; tests compare it with the services that the server registers.
#ifndef SPARSEAGG_SERVICE_AUTH_AUTHORISATION_H_
#define SPARSEAGG_SERVICE_AUTH_AUTHORISATION_H_

#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "service/auth/caller.h"

namespace sparseagg {

struct RpcRule {
  std::string_view rpc;  // "CreateRound"; for other services with the service's name before it
  RoleSet roles;         // one of them is needed
  bool anyone = false;   // no credential is needed
};
std::span<const RpcRule> RpcRules();

// PERMISSION_DENIED (ROLE_MISSING) unless the table lets the caller call `rpc`.
absl::Status Authorise(const Caller& caller, std::string_view rpc);

// PERMISSION_DENIED (CONTRIBUTOR_NOT_YOURS) unless the caller may send an update as `contributor`.
// An owner may for all contributors, a contributor for itself and for names below its own
// ("phone-1/app" below "phone-1").
absl::Status AuthoriseContributor(const Caller& caller, std::string_view contributor);

// PERMISSION_DENIED (WORKER_NOT_YOURS) unless the caller may acquire tasks as `worker`: an owner
// may as any, a worker as itself and as names below its own.
absl::Status AuthoriseWorker(const Caller& caller, std::string_view worker);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUTH_AUTHORISATION_H_

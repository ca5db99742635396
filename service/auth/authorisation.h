// What callers may do: one row for every RPC, and nothing without a row. docs/security.md shows the
// table; tests hold it against the services that the server registers.
#ifndef SPARSEAGG_SERVICE_AUTH_AUTHORISATION_H_
#define SPARSEAGG_SERVICE_AUTH_AUTHORISATION_H_

#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "service/auth/caller.h"

namespace sparseagg {

struct RpcRule {
  std::string_view rpc;  // "CreateRound"; of other services with their name before it
  RoleSet roles;         // any of them suffices
  bool anyone = false;   // without a credential, too
};
std::span<const RpcRule> RpcRules();

// PERMISSION_DENIED (ROLE_MISSING) unless the table lets the caller call `rpc`.
absl::Status Authorise(const Caller& caller, std::string_view rpc);

// Whether the caller may send an update in the name of `contributor`: an owner for everybody, a
// contributor for itself and for what is below it ("phone-1/app" below "phone-1").
// PERMISSION_DENIED (CONTRIBUTOR_NOT_YOURS).
absl::Status AuthoriseContributor(const Caller& caller, std::string_view contributor);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUTH_AUTHORISATION_H_

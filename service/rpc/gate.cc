#include "service/rpc/gate.h"

#include <string>

#include "service/auth/authorisation.h"
#include "service/engine/names.h"
#include "sparse/status.h"

namespace sparseagg {
namespace {

// Everybody, where nobody is asked for credentials.
Caller AnonymousCaller() {
  return {.tenant = std::string(kDefaultTenant), .principal = "anonymous", .roles = RoleSet::All()};
}

}  // namespace

absl::StatusOr<AdmittedCall> Gate::Admit(const grpc::CallbackServerContext& /*context*/,
                                         std::string_view rpc) {
  AdmittedCall call{.caller = AnonymousCaller()};
  SPARSEAGG_RETURN_IF_ERROR(Authorise(call.caller, rpc));
  call.engine = &engines_.Of(call.caller.tenant);
  return call;
}

}  // namespace sparseagg

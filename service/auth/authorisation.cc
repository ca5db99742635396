#include "service/auth/authorisation.h"

#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {
namespace {

using enum Role;

// Contributors can read a round whose name they know, but cannot list rounds. The result, which may
// reveal data of others, is for owners and readers.
constexpr RpcRule kRules[] = {
    {"CreateRound", {kOwner}},
    {"GetRound", RoleSet::All()},
    {"ListRounds", {kOperator, kOwner, kReader}},
    {"SealRound", {kOwner}},
    {"AbortRound", {kOperator, kOwner}},
    {"DeleteRound", {kOperator, kOwner}},
    {"WatchRound", RoleSet::All()},
    {"WaitRound", RoleSet::All()},
    {"SubmitUpdate", {kOwner, kContributor}},
    {"StreamUpdates", {kOwner, kContributor}},
    {"UploadChunk", {kOwner, kContributor}},
    {"GetAggregate", {kOwner, kReader}},
    {"ReadResult", {kOwner, kReader}},
    {"VerifyRound", {kOperator, kOwner}},
    {"Reduce", {kOwner}},
    {"GetServerInfo", RoleSet::All()},
    // Load balancers and probes have no credentials, and the answer reveals only a state.
    {"grpc.health.v1.Health/Check", {}, /*anyone=*/true},
    {"grpc.health.v1.Health/Watch", {}, /*anyone=*/true},
};

std::string RolesOf(RoleSet roles) {
  std::string names;
  for (const Role role : kAllRoles) {
    if (!roles.Has(role)) continue;
    absl::StrAppend(&names, names.empty() ? "" : " or ", std::string(RoleName(role)));
  }
  return names.empty() ? "no role" : names;
}

}  // namespace

std::span<const RpcRule> RpcRules() { return kRules; }

absl::Status Authorise(const Caller& caller, std::string_view rpc) {
  RoleSet allowed;
  for (const RpcRule& rule : kRules) {
    if (rule.rpc == rpc) allowed = rule.roles;
  }
  if (caller.roles.HasAnyOf(allowed)) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kPermissionDenied, "ROLE_MISSING",
      absl::StrCat(std::string(rpc), " needs the role ", RolesOf(allowed), "; \"", caller.principal,
                   "\" of tenant \"", caller.tenant, "\" does not have it"));
}

absl::Status AuthoriseContributor(const Caller& caller, std::string_view contributor) {
  if (caller.roles.Has(kOwner)) return absl::OkStatus();
  const std::string_view rest = contributor.starts_with(caller.principal)
                                    ? contributor.substr(caller.principal.size())
                                    : std::string_view("?");
  if (caller.roles.Has(kContributor) && (rest.empty() || rest.starts_with('/'))) {
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kPermissionDenied, "CONTRIBUTOR_NOT_YOURS",
                   absl::StrCat("\"", caller.principal, "\" may send updates only as \"",
                                caller.principal, "\" or below it (\"", caller.principal,
                                "/...\"); an owner may send them for others"));
}

}  // namespace sparseagg

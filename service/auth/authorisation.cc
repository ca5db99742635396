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
    {"SubmitUpdate", {kOwner, kContributor, kWorker}},
    {"StreamUpdates", {kOwner, kContributor, kWorker}},
    {"UploadChunk", {kOwner, kContributor, kWorker}},
    {"GetAggregate", {kOwner, kReader}},
    {"ReadResult", {kOwner, kReader}},
    // A partial aggregate names its contributors, and its sender speaks for them.
    {"GetPartial", {kOwner}},
    {"SubmitPartial", {kOwner}},
    {"VerifyRound", {kOperator, kOwner}},
    {"Reduce", {kOwner}},
    {"GetServerInfo", RoleSet::All()},
    {"CreateTasks", {kOwner}},
    {"GetTask", {kOperator, kOwner, kWorker}},
    {"ListTasks", {kOperator, kOwner, kWorker}},
    {"CancelTasks", {kOperator, kOwner}},
    {"WaitTasks", {kOperator, kOwner}},
    {"AcquireTasks", {kOwner, kWorker}},
    {"RenewTasks", {kOwner, kWorker}},
    {"CompleteTask", {kOwner, kWorker}},
    {"FailTask", {kOwner, kWorker}},
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

// Whether the name is the caller's, or below it.
bool IsOwnName(const Caller& caller, std::string_view name) {
  if (!name.starts_with(caller.principal)) return false;
  return name.size() == caller.principal.size() || name[caller.principal.size()] == '/';
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
  if (caller.roles.Has(kContributor) && IsOwnName(caller, contributor)) return absl::OkStatus();
  if (!caller.roles.Has(kContributor) && caller.roles.Has(kWorker)) {
    return MakeError(absl::StatusCode::kPermissionDenied, "CONTRIBUTOR_NOT_YOURS",
                     absl::StrCat("\"", caller.principal,
                                  "\" may send updates only as the contributor of a task that it "
                                  "holds; an owner may send them for others"));
  }
  return MakeError(absl::StatusCode::kPermissionDenied, "CONTRIBUTOR_NOT_YOURS",
                   absl::StrCat("\"", caller.principal, "\" may send updates only as \"",
                                caller.principal, "\" or below it (\"", caller.principal,
                                "/...\"); an owner may send them for others"));
}

absl::Status AuthoriseWorker(const Caller& caller, std::string_view worker) {
  if (caller.roles.Has(kOwner) || IsOwnName(caller, worker)) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kPermissionDenied, "WORKER_NOT_YOURS",
      absl::StrCat("\"", caller.principal, "\" may acquire tasks only as \"", caller.principal,
                   "\" or below it (\"", caller.principal, "/...\"); an owner may for others"));
}

}  // namespace sparseagg

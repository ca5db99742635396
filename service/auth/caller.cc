#include "service/auth/caller.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {
namespace {

constexpr std::array<std::string_view, 5> kRoleNames = {"operator", "owner", "contributor",
                                                        "reader", "worker"};
constexpr size_t kTenantBytesMax = 63;
constexpr size_t kPrincipalBytesMax = 128;

bool IsTenant(std::string_view tenant) {
  return !tenant.empty() && tenant.size() <= kTenantBytesMax && absl::ascii_islower(tenant[0]) &&
         std::all_of(tenant.begin(), tenant.end(), [](unsigned char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
         });
}

bool IsPrincipal(std::string_view principal) {
  return !principal.empty() && principal.size() <= kPrincipalBytesMax &&
         !principal.ends_with('/') &&
         std::all_of(principal.begin(), principal.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) ||
                  std::string_view("._:@|/-").find(static_cast<char>(c)) != std::string::npos;
         });
}

absl::Status Invalid(std::string_view what, std::string_view value) {
  constexpr size_t kShownBytes = 80;
  return MakeError(
      absl::StatusCode::kInvalidArgument, "CREDENTIALS_INVALID",
      absl::StrCat(std::string(what), " \"",
                   absl::CEscape(std::string(value.substr(0, kShownBytes))), "\" is not one"));
}

}  // namespace

std::string_view RoleName(Role role) { return kRoleNames[static_cast<size_t>(role)]; }

std::optional<Role> ParseRole(std::string_view name) {
  for (const Role role : kAllRoles) {
    if (RoleName(role) == name) return role;
  }
  return std::nullopt;
}

absl::Status ValidateCaller(const Caller& caller) {
  if (!IsTenant(caller.tenant)) return Invalid("tenant", caller.tenant);
  if (!IsPrincipal(caller.principal)) return Invalid("principal", caller.principal);
  if (!caller.roles.empty()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, "CREDENTIALS_INVALID",
                   absl::StrCat("principal \"", caller.principal, "\" has no role"));
}

}  // namespace sparseagg

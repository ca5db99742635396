#include "service/auth/caller.h"

#include <array>

namespace sparseagg {
namespace {

constexpr std::array<std::string_view, 4> kRoleNames = {"operator", "owner", "contributor",
                                                        "reader"};

}  // namespace

std::string_view RoleName(Role role) { return kRoleNames[static_cast<size_t>(role)]; }

std::optional<Role> ParseRole(std::string_view name) {
  for (const Role role : kAllRoles) {
    if (RoleName(role) == name) return role;
  }
  return std::nullopt;
}

}  // namespace sparseagg

// The identity of a caller, which the RPC layer knows before it handles a call. It comes from the
// credential (a token or a client certificate) and from nothing else in the request.
#ifndef SPARSEAGG_SERVICE_AUTH_CALLER_H_
#define SPARSEAGG_SERVICE_AUTH_CALLER_H_

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace sparseagg {

// The roles of callers; authorisation.h has their permissions. A caller may have several roles.
enum class Role : uint8_t {
  kOperator,     // sees and ends a tenant's rounds, reads no result
  kOwner,        // a federated server: runs rounds, reads results, submits for contributors
  kContributor,  // sends updates in its own name
  kReader,       // reads results
  kWorker,       // acquires tasks in its own name, and sends the updates of those that it holds
};
inline constexpr Role kAllRoles[] = {Role::kOperator, Role::kOwner, Role::kContributor,
                                     Role::kReader, Role::kWorker};

// "operator", "owner", "contributor", "reader", "worker".
std::string_view RoleName(Role role);
std::optional<Role> ParseRole(std::string_view name);

class RoleSet {
 public:
  constexpr RoleSet() = default;
  constexpr RoleSet(std::initializer_list<Role> roles) {
    for (const Role role : roles) Add(role);
  }
  static constexpr RoleSet All() {
    RoleSet all;
    for (const Role role : kAllRoles) all.Add(role);
    return all;
  }
  constexpr void Add(Role role) { bits_ |= Bit(role); }
  constexpr bool Has(Role role) const { return (bits_ & Bit(role)) != 0; }
  constexpr bool HasAnyOf(RoleSet others) const { return (bits_ & others.bits_) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool operator==(const RoleSet&) const = default;

 private:
  static constexpr uint8_t Bit(Role role) { return uint8_t(1u << static_cast<unsigned>(role)); }
  uint8_t bits_ = 0;
};

struct Caller {
  std::string tenant;
  std::string principal;  // unique within the tenant
  RoleSet roles;
  // When the credential expires. A stream or watch that began before continues.
  std::chrono::system_clock::time_point expires = std::chrono::system_clock::time_point::max();
};

// INVALID_ARGUMENT (CREDENTIALS_INVALID) unless the tenant is 1 to 63 characters of [a-z0-9-]
// starting with a letter, the principal is 1 to 128 characters of [A-Za-z0-9._:@|/-] that do not
// end in "/", and there is a role.
absl::Status ValidateCaller(const Caller& caller);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUTH_CALLER_H_

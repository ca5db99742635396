// The names that come from outside, and what they may look like. All errors are INVALID_ARGUMENT
// and quote the name.
#ifndef SPARSEAGG_SERVICE_ENGINE_NAMES_H_
#define SPARSEAGG_SERVICE_ENGINE_NAMES_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace sparseagg {

inline constexpr std::string_view kRoundPrefix = "rounds/";

// Rounds belong to tenants. Outside, a tenant's round is "rounds/x". Engine and store keep the
// rounds of all tenants apart by qualified names: "tenants/acme/rounds/x", and "rounds/x" for the
// default tenant, whose data directories may be older than tenants are.
inline constexpr std::string_view kDefaultTenant = "default";
std::string QualifiedName(std::string_view tenant, std::string_view name);
std::string_view TenantOf(std::string_view qualified);
// Without the tenant: what a caller may see.
std::string_view PublicName(std::string_view qualified);

// 1 to 63 characters of [a-z0-9-], the first a letter (INVALID_TENANT).
absl::Status ValidateTenant(std::string_view tenant);

// 1 to 63 characters of [a-z0-9-], the first a letter (INVALID_ROUND_ID).
absl::Status ValidateRoundId(std::string_view round_id);
// kRoundPrefix and a round id (INVALID_ROUND_NAME).
absl::Status ValidateRoundName(std::string_view name);
// At most 64 printable ASCII characters; may be empty (INVALID_REQUEST_ID).
absl::Status ValidateRequestId(std::string_view request_id);
// 1 to 128 characters of [A-Za-z0-9._:@|/-] (INVALID_CONTRIBUTOR).
absl::Status ValidateContributor(std::string_view contributor);
// 1 to 64 characters of [A-Za-z0-9._-] (INVALID_UPDATE_ID).
absl::Status ValidateUpdateId(std::string_view update_id);

// A name from outside as it may stand in a message: in quotes, cut at 80 bytes. What is not valid
// UTF-8, and what is not a character to look at, is escaped.
std::string Quoted(std::string_view name);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_NAMES_H_

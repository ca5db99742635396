// Validates names that clients choose. All errors are INVALID_ARGUMENT and quote the name.
#ifndef SPARSEAGG_SERVICE_ENGINE_NAMES_H_
#define SPARSEAGG_SERVICE_ENGINE_NAMES_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace sparseagg {

inline constexpr std::string_view kRoundPrefix = "rounds/";

// Rounds belong to tenants. A client sees its tenant's round as "rounds/x". Engine and store
// separate tenants by qualified names: "tenants/acme/rounds/x", and "rounds/x" for the default
// tenant, so that data directories from before tenants existed stay valid.
inline constexpr std::string_view kDefaultTenant = "default";
std::string QualifiedName(std::string_view tenant, std::string_view name);
std::string_view TenantOf(std::string_view qualified);
// Returns the name without the tenant, as clients see it.
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

// Returns a client's name for use in a message: in quotes and cut at 80 bytes. Bytes that are not
// valid UTF-8, and characters that cannot be printed, are escaped.
std::string Quoted(std::string_view name);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_NAMES_H_

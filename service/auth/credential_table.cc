#include "service/auth/credential_table.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/status.h"

namespace sparseagg {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 5> kNameKinds = {"dns:", "uri:", "email:", "ip:", "cn:"};
constexpr std::array<std::string_view, 5> kTenantLimits = {
    "tenant-rounds-max", "tenant-bytes-max", "tenant-streams-max", "tenant-uploads-max",
    "tenant-waits-max"};

template <typename... Words>
absl::Status Invalid(const Words&... words) {
  return MakeError(absl::StatusCode::kInvalidArgument, "CREDENTIALS_INVALID",
                   absl::StrCat(words...));
}

std::string Normal(std::string_view name) {
  std::string normal(name);
  if (normal.starts_with("dns:")) absl::AsciiStrToLower(&normal);
  return normal;
}

bool HasKind(std::string_view name) {
  for (const std::string_view kind : kNameKinds) {
    if (name.size() > kind.size() && name.starts_with(kind)) return true;
  }
  return false;
}

// Returns the part of `name` that the `*` of `pattern` matches: empty if there is no `*` and the
// two are equal, nullopt if they do not match.
std::optional<std::string_view> Match(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) {
    return pattern == name ? std::optional<std::string_view>("") : std::nullopt;
  }
  const std::string_view before = pattern.substr(0, star);
  const std::string_view after = pattern.substr(star + 1);
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) ||
      !name.ends_with(after)) {
    return std::nullopt;
  }
  const std::string_view part =
      name.substr(before.size(), name.size() - before.size() - after.size());
  const bool one_part = std::all_of(part.begin(), part.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_';
  });
  return one_part ? std::optional<std::string_view>(part) : std::nullopt;
}

}  // namespace

// Parses one file; `where` names the row in errors.
class CredentialTable::Parser {
 public:
  absl::StatusOr<CredentialTable> Parse(std::string_view text) {
    const Json file = Json::parse(text, nullptr, /*allow_exceptions=*/false,
                                  /*ignore_comments=*/true);
    if (!file.is_object()) return Invalid("it is not a JSON object");
    SPARSEAGG_RETURN_IF_ERROR(CheckKeys(file, "the file", {"credentials", "tenants"}));
    const Json rows = file.value("credentials", Json::array());
    if (!rows.is_array()) return Invalid("\"credentials\" is not a list");
    for (size_t i = 0; i < rows.size(); ++i) {
      SPARSEAGG_RETURN_IF_ERROR(AddRow(rows[i], absl::StrCat("credential ", i + 1)));
    }
    const Json tenants = file.value("tenants", Json::object());
    if (!tenants.is_object()) return Invalid("\"tenants\" is not an object");
    for (const auto& [tenant, limits] : tenants.items()) {
      SPARSEAGG_RETURN_IF_ERROR(AddTenant(tenant, limits));
    }
    return std::move(table_);
  }

 private:
  static absl::Status CheckKeys(const Json& object, const std::string& where,
                                std::initializer_list<std::string_view> known) {
    for (const auto& [key, value] : object.items()) {
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        return Invalid(where, " has an unknown key \"", key, "\"");
      }
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<std::string> Text(const Json& row, const std::string& where,
                                          const char* key) {
    const auto found = row.find(key);
    if (found == row.end() || !found->is_string() || found->get_ref<const std::string&>().empty()) {
      return Invalid(where, " has no \"", key, "\"");
    }
    return found->get<std::string>();
  }

  absl::Status AddRow(const Json& row, const std::string& where) {
    if (!row.is_object()) return Invalid(where, " is not an object");
    SPARSEAGG_RETURN_IF_ERROR(CheckKeys(
        row, where, {"token_sha256", "certificate", "tenant", "principal", "roles", "expires"}));
    SPARSEAGG_ASSIGN_OR_RETURN(Caller caller, CallerOf(row, where));
    if (row.contains("token_sha256") == row.contains("certificate")) {
      return Invalid(where, " needs one of \"token_sha256\" and \"certificate\"");
    }
    if (row.contains("certificate")) return AddCertificate(row, where, std::move(caller));
    return AddToken(row, where, std::move(caller));
  }

  static absl::StatusOr<Caller> CallerOf(const Json& row, const std::string& where) {
    Caller caller;
    SPARSEAGG_ASSIGN_OR_RETURN(caller.tenant, Text(row, where, "tenant"));
    SPARSEAGG_ASSIGN_OR_RETURN(caller.principal, Text(row, where, "principal"));
    const auto roles = row.find("roles");
    if (roles == row.end() || !roles->is_array() || roles->empty()) {
      return Invalid(where, " has no list of \"roles\"");
    }
    for (const Json& name : *roles) {
      const auto role = name.is_string() ? ParseRole(name.get<std::string>()) : std::nullopt;
      if (!role) {
        return Invalid(where, " has the unknown role ", name.dump(),
                       "; use operator, owner, contributor or reader");
      }
      caller.roles.Add(*role);
    }
    if (row.contains("expires")) {
      SPARSEAGG_ASSIGN_OR_RETURN(const std::string expires, Text(row, where, "expires"));
      absl::Time time;
      std::string error;
      if (!absl::ParseTime(absl::RFC3339_full, expires, &time, &error)) {
        return Invalid(where, " has the invalid time \"", expires,
                       "\" as \"expires\"; write 2027-01-31T00:00:00Z");
      }
      caller.expires = absl::ToChronoTime(time);
    }
    // The principal "*" comes from the certificate later, and is valid because `*` matches few
    // characters.
    Caller checked = caller;
    if (checked.principal == "*") checked.principal = "x";
    if (const absl::Status status = ValidateCaller(checked); !status.ok()) {
      return Invalid(where, ": ", status.message());
    }
    return caller;
  }

  absl::Status AddToken(const Json& row, const std::string& where, Caller caller) {
    SPARSEAGG_ASSIGN_OR_RETURN(const std::string hex, Text(row, where, "token_sha256"));
    const auto digest = FromHex(hex);
    if (!digest) return Invalid(where, " has a \"token_sha256\" that is not 64 hex digits");
    if (caller.principal == "*") return Invalid(where, " has a principal \"*\" and no certificate");
    if (!table_.tokens_.emplace(*digest, std::move(caller)).second) {
      return Invalid(where, " has the same token as another credential");
    }
    return absl::OkStatus();
  }

  absl::Status AddCertificate(const Json& row, const std::string& where, Caller caller) {
    SPARSEAGG_ASSIGN_OR_RETURN(std::string name, Text(row, where, "certificate"));
    if (!HasKind(name)) {
      return Invalid(where, " has a certificate \"", name,
                     "\"; begin its name with dns:, uri:, email:, ip: or cn:");
    }
    const auto stars = std::count(name.begin(), name.end(), '*');
    if (stars > 1) return Invalid(where, " has a certificate with more than one *");
    if (caller.principal == "*" && stars == 0) {
      return Invalid(where, " has a principal \"*\" and no * in its certificate");
    }
    table_.certificates_.push_back({Normal(name), std::move(caller)});
    return absl::OkStatus();
  }

  absl::Status AddTenant(const std::string& tenant, const Json& limits) {
    const Caller anybody{.tenant = tenant, .principal = "x", .roles = {Role::kOwner}};
    if (const absl::Status status = ValidateCaller(anybody); !status.ok()) {
      return Invalid("\"tenants\": ", status.message());
    }
    const std::string where = absl::StrCat("tenant \"", tenant, "\"");
    if (!limits.is_object()) return Invalid(where, " is not an object");
    for (const auto& [name, value] : limits.items()) {
      const bool known =
          std::find(kTenantLimits.begin(), kTenantLimits.end(), name) != kTenantLimits.end();
      if (!known || !value.is_number_unsigned()) {
        return Invalid(where, ": \"", name,
                       "\" is not a limit with a whole number; the limits are ",
                       absl::StrJoin(kTenantLimits, ", ",
                                     [](std::string* out, auto limit) { out->append(limit); }));
      }
      table_.tenants_[tenant][name] = value.get<uint64_t>();
    }
    return absl::OkStatus();
  }

  CredentialTable table_;
};

absl::StatusOr<CredentialTable> CredentialTable::Parse(std::string_view text) {
  return Parser().Parse(text);
}

size_t CredentialTable::DigestHash::operator()(const TokenDigest& digest) const {
  size_t hash = 0;
  std::memcpy(&hash, digest.data(), sizeof(hash));
  return hash;
}

const Caller* CredentialTable::FindToken(std::string_view token) const {
  const auto found = tokens_.find(DigestOf(token));
  return found == tokens_.end() ? nullptr : &found->second;
}

std::optional<Caller> CredentialTable::FindCertificate(std::span<const std::string> names) const {
  for (const CertificateRow& row : certificates_) {
    for (const std::string& name : names) {
      const std::string normal = Normal(name);
      const auto part = Match(row.name, normal);
      if (!part) continue;
      Caller caller = row.caller;
      if (caller.principal == "*") caller.principal = std::string(*part);
      return caller;
    }
  }
  return std::nullopt;
}

}  // namespace sparseagg

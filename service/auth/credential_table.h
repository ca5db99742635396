// The credentials file: callers by token or client certificate, and the limits of tenants. JSON,
// with // comments:
//
//   {
//     "credentials": [
//       {"token_sha256": "9f86d081884c7d65...", "tenant": "acme", "principal": "fl-server",
//        "roles": ["owner"], "expires": "2027-01-31T00:00:00Z"},
//       {"certificate": "dns:*.phones.acme.example", "tenant": "acme", "principal": "*",
//        "roles": ["contributor"]}
//     ],
//     "tenants": {"acme": {"tenant-rounds-max": 100}}
//   }
//
// A certificate is matched by one of its names: "dns:", "uri:", "email:" or "ip:" and a subject
// alternative name, or "cn:" and the subject's common name. One `*` in it matches 1 or more
// characters of [A-Za-z0-9_-]; the principal "*" is replaced by what it matched. The first row that
// matches is used. Several rows of one principal are several credentials of the same identity.
#ifndef SPARSEAGG_SERVICE_AUTH_CREDENTIAL_TABLE_H_
#define SPARSEAGG_SERVICE_AUTH_CREDENTIAL_TABLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "service/auth/caller.h"
#include "service/auth/token.h"

namespace sparseagg {

// Immutable.
class CredentialTable {
 public:
  // INVALID_ARGUMENT (CREDENTIALS_INVALID), which names the row and what is wrong with it.
  static absl::StatusOr<CredentialTable> Parse(std::string_view text);

  // Returns the caller with this token, or null.
  const Caller* FindToken(std::string_view token) const;
  // Returns the caller for a certificate with these names, which are written as in the file.
  std::optional<Caller> FindCertificate(std::span<const std::string> names) const;

  // A tenant's own limits, by their names in the configuration.
  using LimitsByName = std::map<std::string, uint64_t, std::less<>>;
  const std::map<std::string, LimitsByName, std::less<>>& tenants() const { return tenants_; }

  size_t size() const { return tokens_.size() + certificates_.size(); }

 private:
  class Parser;
  struct CertificateRow {
    std::string name;
    Caller caller;
  };
  struct DigestHash {
    size_t operator()(const TokenDigest& digest) const;
  };
  struct DigestEqual {
    bool operator()(const TokenDigest& a, const TokenDigest& b) const { return Equal(a, b); }
  };
  // The time of a lookup may reveal something about stored digests; that does not help to find a
  // token, because SHA-256 cannot be inverted.
  std::unordered_map<TokenDigest, Caller, DigestHash, DigestEqual> tokens_;
  std::vector<CertificateRow> certificates_;
  std::map<std::string, LimitsByName, std::less<>> tenants_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUTH_CREDENTIAL_TABLE_H_

// The credentials file: who calls, by token or by client certificate, and what a tenant may use.
// JSON, with // comments:
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
// A certificate is known by one of its names: "dns:", "uri:", "email:" or "ip:" and a subject
// alternative name, or "cn:" and the subject's common name. One `*` in it stands for 1 or more
// characters of [A-Za-z0-9_-]; a principal "*" is what it stood for. The first row that matches
// counts. Rows of the same principal are several ways to prove the same identity.
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
  // INVALID_ARGUMENT (CREDENTIALS_INVALID) names the row and what is wrong with it.
  static absl::StatusOr<CredentialTable> Parse(std::string_view text);

  // Null when nobody has it.
  const Caller* FindToken(std::string_view token) const;
  // `names` as in the file.
  std::optional<Caller> FindCertificate(std::span<const std::string> names) const;

  // Of a tenant's own limits, by their names in the configuration.
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
  // A lookup's time may tell where a digest is; nobody can choose a token by its digest.
  std::unordered_map<TokenDigest, Caller, DigestHash, DigestEqual> tokens_;
  std::vector<CertificateRow> certificates_;
  std::map<std::string, LimitsByName, std::less<>> tenants_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUTH_CREDENTIAL_TABLE_H_

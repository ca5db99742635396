// Certificate authorities and certificates for tests, generated on demand.
#ifndef SPARSEAGG_TESTS_SUPPORT_CERTIFICATES_H_
#define SPARSEAGG_TESTS_SUPPORT_CERTIFICATES_H_

#include <openssl/x509.h>

#include <memory>
#include <string>

namespace sparseagg::testing {

struct PemPair {
  std::string certificate;
  std::string key;
};

// An authority with a P-256 key. Thread-compatible.
class CertificateAuthority {
 public:
  explicit CertificateAuthority(const std::string& name);

  const std::string& certificate() const { return pem_.certificate; }

  // Issues a certificate with a key of its own. `alternative_names` has OpenSSL's syntax:
  // "DNS:a.example,URI:spiffe://a/b,IP:127.0.0.1".
  PemPair Issue(const std::string& common_name, const std::string& alternative_names,
                long valid_seconds = 86400);

 private:
  PemPair pem_;
  std::shared_ptr<X509> certificate_;
  std::shared_ptr<EVP_PKEY> key_;
  long serial_ = 1;
};

// Writes a file under another name and renames it, as one replaces a certificate in use.
void ReplaceFile(const std::string& path, const std::string& text);

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SUPPORT_CERTIFICATES_H_

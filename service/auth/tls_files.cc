#include "service/auth/tls_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {
namespace {

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeCertificate {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
struct FreeFile {
  void operator()(BIO* file) const { BIO_free(file); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;
using Certificate = std::unique_ptr<X509, FreeCertificate>;
using File = std::unique_ptr<BIO, FreeFile>;

template <typename... Words>
absl::Status Invalid(const Words&... words) {
  ERR_clear_error();
  return MakeError(absl::StatusCode::kInvalidArgument, "TLS_FILES_INVALID", absl::StrCat(words...));
}

// The first certificate of the file.
absl::StatusOr<Certificate> ParseCertificate(const std::string& path, const std::string& text) {
  const File file(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  Certificate certificate(PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr));
  if (certificate == nullptr) return Invalid(path, " has no certificate in PEM");
  if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) <= 0) {
    return Invalid("the certificate in ", path, " has expired");
  }
  return certificate;
}

// Without a passphrase prompt for an encrypted key.
int NoPassphrase(char*, int, int, void*) { return 0; }

absl::StatusOr<Key> ParseKey(const std::string& path, const std::string& text) {
  const File file(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  Key key(PEM_read_bio_PrivateKey(file.get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr) return Invalid(path, " has no private key in PEM without a passphrase");
  return key;
}

}  // namespace

absl::Status CheckTlsFiles(const TlsFiles& files) {
  if (files.certificate.empty() != files.key.empty()) {
    return Invalid("tls-cert and tls-key must both be set; only one is");
  }
  if (files.enabled()) return WatchedTlsFiles(files).ReadIfChanged().status();
  if (files.client_authority.empty()) return absl::OkStatus();
  return Invalid("tls-client-ca needs tls-cert and tls-key");
}

WatchedTlsFiles::WatchedTlsFiles(const TlsFiles& files)
    : certificate_(files.certificate), key_(files.key), client_authority_(files.client_authority) {}

absl::Status WatchedTlsFiles::Read(WatchedFile& file, std::string& text) {
  if (file.path().empty()) return absl::OkStatus();
  auto read = file.ReadIfChanged();
  if (!read.ok()) return Invalid(std::string(read.status().message()));
  if (!read->has_value()) return absl::OkStatus();
  text = **std::move(read);
  changed_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TlsTexts>> WatchedTlsFiles::ReadIfChanged() {
  SPARSEAGG_RETURN_IF_ERROR(Read(certificate_, texts_.certificate));
  SPARSEAGG_RETURN_IF_ERROR(Read(key_, texts_.key));
  SPARSEAGG_RETURN_IF_ERROR(Read(client_authority_, texts_.client_authority));
  if (!changed_) return std::nullopt;
  changed_ = false;
  SPARSEAGG_ASSIGN_OR_RETURN(const Certificate certificate,
                             ParseCertificate(certificate_.path(), texts_.certificate));
  SPARSEAGG_ASSIGN_OR_RETURN(const Key key, ParseKey(key_.path(), texts_.key));
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return Invalid("the key in ", key_.path(), " does not belong to the certificate in ",
                   certificate_.path());
  }
  if (!client_authority_.path().empty()) {
    SPARSEAGG_RETURN_IF_ERROR(
        ParseCertificate(client_authority_.path(), texts_.client_authority).status());
  }
  return texts_;
}

}  // namespace sparseagg

#include "client/transport/credentials.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <fstream>
#include <memory>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg::client {
namespace {

absl::StatusOr<std::string> ReadText(const std::string& path) {
  if (path.empty()) return std::string();
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file && (text << file.rdbuf())) return text.str();
  return MakeError(absl::StatusCode::kFailedPrecondition, "FILE_UNREADABLE",
                   absl::StrCat("cannot read ", path, ", or it is empty"));
}

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeCertificate {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
struct FreeText {
  void operator()(BIO* text) const { BIO_free(text); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;
using Certificate = std::unique_ptr<X509, FreeCertificate>;
using Text = std::unique_ptr<BIO, FreeText>;

Text Open(const std::string& pem) {
  return Text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

int NoPassphrase(char*, int, int, void*) { return 0; }

absl::Status Invalid(const std::string& message) {
  ERR_clear_error();
  return MakeError(absl::StatusCode::kFailedPrecondition, "TLS_FILE_INVALID", message);
}

// Checks the files, because with invalid ones gRPC would fail every call without a reason.
// REQUIRES: `pem` has the contents of the files.
absl::Status CheckFiles(const TlsOptions& files, const grpc::SslCredentialsOptions& pem) {
  const auto first_of = [](const std::string& text) {
    return Certificate(PEM_read_bio_X509(Open(text).get(), nullptr, nullptr, nullptr));
  };
  if (!files.authority_file.empty() && first_of(pem.pem_root_certs) == nullptr) {
    return Invalid(absl::StrCat(files.authority_file, " has no certificate in PEM"));
  }
  if (files.certificate_file.empty() && files.key_file.empty()) return absl::OkStatus();
  const Certificate certificate = first_of(pem.pem_cert_chain);
  if (certificate == nullptr) {
    return Invalid(absl::StrCat(files.certificate_file, " has no certificate in PEM"));
  }
  const Key key(
      PEM_read_bio_PrivateKey(Open(pem.pem_private_key).get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr) {
    return Invalid(absl::StrCat(files.key_file, " has no private key in PEM without a passphrase"));
  }
  if (X509_check_private_key(certificate.get(), key.get()) == 1) return absl::OkStatus();
  return Invalid(absl::StrCat("the key in ", files.key_file,
                              " does not belong to the certificate in ", files.certificate_file));
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const Address& address, const ClientOptions& options) {
  if (address.tls == false && options.tls.has_value()) {
    return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_TARGET",
                     absl::StrCat("http:// asks ", address.target,
                                  " for no TLS, and the options ask for it; write https://"));
  }
  if (!options.tls.has_value() && !address.tls.value_or(false)) {
    if (options.token && !IsLocal(address)) {
      return MakeError(absl::StatusCode::kInvalidArgument, "TOKEN_NEEDS_TLS",
                       absl::StrCat("whoever sees the traffic to ", address.target,
                                    " would have the token; use TLS"));
    }
    return grpc::InsecureChannelCredentials();
  }
  grpc::SslCredentialsOptions pem;
  const TlsOptions files = options.tls.value_or(TlsOptions());
  SPARSEAGG_ASSIGN_OR_RETURN(pem.pem_root_certs, ReadText(files.authority_file));
  SPARSEAGG_ASSIGN_OR_RETURN(pem.pem_cert_chain, ReadText(files.certificate_file));
  SPARSEAGG_ASSIGN_OR_RETURN(pem.pem_private_key, ReadText(files.key_file));
  SPARSEAGG_RETURN_IF_ERROR(CheckFiles(files, pem));
  return grpc::SslCredentials(pem);
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  return std::string(absl::StripAsciiWhitespace(text));
}

}  // namespace sparseagg::client

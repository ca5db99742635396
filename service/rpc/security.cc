#include "service/rpc/security.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

namespace sparseagg {
namespace {

constexpr unsigned int kReloadSeconds = 1;

}  // namespace

bool IsLocalAddress(std::string_view listen) {
  for (const std::string_view local : {"127.", "localhost:", "[::1]:", "unix:", "unix-abstract:"}) {
    if (listen.starts_with(local)) return true;
  }
  return false;
}

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const TlsFiles& files) {
  if (!files.enabled()) return grpc::InsecureServerCredentials();
  const auto provider = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      files.key, files.certificate, files.client_authority, kReloadSeconds);
  grpc::experimental::TlsServerCredentialsOptions options(provider);
  options.watch_identity_key_cert_pairs();
  if (!files.client_authority.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(files.client_certificate_required
                                      ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                      : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace sparseagg

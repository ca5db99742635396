#include "service/rpc/security.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"

namespace sparseagg {
namespace {

grpc_ssl_client_certificate_request_type RequestTypeOf(const TlsFiles& files) {
  if (files.client_authority.empty()) return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
  return files.client_certificate_required
             ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
             : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
}

// gRPC calls this at each new connection to learn whether the files have changed, and keeps the
// certificates it has if they are invalid. Its own FileWatcherCertificateProvider accepts every
// file, and aborts the process at an empty one.
class WatchedTlsCredentials : public grpc::ServerCredentials {
 public:
  WatchedTlsCredentials(const TlsFiles& files,
                        std::function<void(const absl::Status& status)> on_reload)
      : on_reload_(std::move(on_reload)),
        files_(files),
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(RequestTypeOf(files),
                                                                            &Fetch, this))) {}
  ~WatchedTlsCredentials() override { grpc_server_credentials_release(credentials_); }
  WatchedTlsCredentials(const WatchedTlsCredentials&) = delete;
  WatchedTlsCredentials& operator=(const WatchedTlsCredentials&) = delete;

  // CallAuthoriser authorises callers.
  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<WatchedTlsCredentials*>(self)->Reload(config);
  }

  grpc_ssl_certificate_config_reload_status Reload(grpc_ssl_server_certificate_config** config) {
    const std::lock_guard lock(mutex_);
    const auto read = files_.ReadIfChanged();
    if (!read.ok()) {
      if (read.status() != told_) on_reload_(read.status());
      told_ = read.status();
      return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
    }
    if (!read->has_value()) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const TlsTexts& texts = **read;
    const grpc_ssl_pem_key_cert_pair pair = {texts.key.c_str(), texts.certificate.c_str()};
    // gRPC asserts that there is an authority even when it requests no client certificate.
    const std::string& authority =
        texts.client_authority.empty() ? texts.certificate : texts.client_authority;
    *config = grpc_ssl_server_certificate_config_create(authority.c_str(), &pair, 1);
    if (told_.has_value()) on_reload_(absl::OkStatus());
    told_ = absl::OkStatus();
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::function<void(const absl::Status& status)> on_reload_;
  std::mutex mutex_;  // guards what follows
  WatchedTlsFiles files_;
  std::optional<absl::Status> told_;  // nullopt: not read yet
  grpc_server_credentials* const credentials_;
};

}  // namespace

bool IsLocalAddress(std::string_view listen) {
  for (const std::string_view local : {"127.", "localhost:", "[::1]:", "unix:", "unix-abstract:"}) {
    if (listen.starts_with(local)) return true;
  }
  return false;
}

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const ServerSecurity& security) {
  if (!security.tls.enabled()) return grpc::InsecureServerCredentials();
  return std::make_shared<WatchedTlsCredentials>(security.tls, security.on_tls_reload);
}

}  // namespace sparseagg

// TLS of the HTTP edge, with the certificate files of the gRPC port. As there, the files are looked
// at for each new connection, and invalid ones leave the last valid ones in use; the gRPC port
// reports that.
#ifndef SPARSEAGG_SERVICE_HTTP_TLS_CONTEXTS_H_
#define SPARSEAGG_SERVICE_HTTP_TLS_CONTEXTS_H_

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/auth/tls_files.h"

namespace sparseagg {

// Thread-compatible.
class TlsContexts {
 public:
  // REQUIRES: files.enabled().
  explicit TlsContexts(const TlsFiles& files);
  // Returns the context for a new connection. Errors are those of CheckTlsFiles(), as long as there
  // were no valid files.
  absl::StatusOr<std::shared_ptr<boost::asio::ssl::context>> Current();

 private:
  WatchedTlsFiles files_;
  const bool requests_certificate_;
  const bool requires_certificate_;
  std::shared_ptr<boost::asio::ssl::context> current_;
};

// The names in the client's certificate, which TLS has verified, as
// PresentedCredentials::certificate_names; empty if there is none.
std::vector<std::string> PeerCertificateNames(SSL* connection);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_HTTP_TLS_CONTEXTS_H_

// The certificate files of the server, checked before it starts: TLS itself would only fail every
// handshake, without a word to the operator.
#ifndef SPARSEAGG_SERVICE_AUTH_TLS_FILES_H_
#define SPARSEAGG_SERVICE_AUTH_TLS_FILES_H_

#include <string>

#include "absl/status/status.h"

namespace sparseagg {

// PEM files; all empty: no TLS.
struct TlsFiles {
  std::string certificate;  // of the server, and those between it and its authority
  std::string key;
  std::string client_authority;  // who signs client certificates; empty: none are asked for
  bool client_certificate_required = true;

  bool enabled() const { return !certificate.empty(); }
};

// INVALID_ARGUMENT (TLS_FILES_INVALID) names the file and what is wrong: not readable, not PEM, the
// key of another certificate, a certificate that is over, files given by halves.
absl::Status CheckTlsFiles(const TlsFiles& files);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUTH_TLS_FILES_H_

// The certificate files of the server, checked before they are used: TLS itself would only fail
// every handshake, without a word to the operator.
#ifndef SPARSEAGG_SERVICE_AUTH_TLS_FILES_H_
#define SPARSEAGG_SERVICE_AUTH_TLS_FILES_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/auth/watched_file.h"

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

// What was in the files; it fits together.
struct TlsTexts {
  std::string certificate;
  std::string key;
  std::string client_authority;
};

// Thread-compatible.
class WatchedTlsFiles {
 public:
  // REQUIRES: files.enabled().
  explicit WatchedTlsFiles(const TlsFiles& files);

  // All of them, when one was not read before or is another one since; else nothing. Errors are
  // those of CheckTlsFiles().
  absl::StatusOr<std::optional<TlsTexts>> ReadIfChanged();

 private:
  absl::Status Read(WatchedFile& file, std::string& text);

  WatchedFile certificate_;
  WatchedFile key_;
  WatchedFile client_authority_;
  TlsTexts texts_;        // as read last
  bool changed_ = false;  // and not checked since
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUTH_TLS_FILES_H_

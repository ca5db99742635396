// The certificate files of the server, which are checked before they are used: with invalid ones
// every TLS handshake would fail, and the operator would not learn why.
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
  std::string certificate;  // of the server, followed by the intermediate ones
  std::string key;
  std::string client_authority;  // the CA of client certificates; empty: none are requested
  bool client_certificate_required = true;

  bool enabled() const { return !certificate.empty(); }
};

// INVALID_ARGUMENT (TLS_FILES_INVALID), which names the file and what is wrong: not readable, not
// PEM, the key of another certificate, an expired certificate, or only some of the files.
absl::Status CheckTlsFiles(const TlsFiles& files);

// The contents of the files, which passed CheckTlsFiles().
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

  // Returns the contents of all files if one of them has changed since the last call, or at the
  // first call; otherwise nullopt. Errors are those of CheckTlsFiles().
  absl::StatusOr<std::optional<TlsTexts>> ReadIfChanged();

 private:
  absl::Status Read(WatchedFile& file, std::string& text);

  WatchedFile certificate_;
  WatchedFile key_;
  WatchedFile client_authority_;
  TlsTexts texts_;        // the last contents read
  bool changed_ = false;  // texts_ has changed and is not checked yet
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUTH_TLS_FILES_H_

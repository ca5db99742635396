#include "client/credentials.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/connections.h"
#include "sparse/status.h"

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

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const std::string& target, const ClientOptions& options) {
  if (!options.tls.has_value()) {
    if (options.token && !IsThisMachine(target)) {
      return MakeError(
          absl::StatusCode::kInvalidArgument, "TOKEN_NEEDS_TLS",
          absl::StrCat("whoever sees the traffic to ", target, " would have the token; use TLS"));
    }
    return grpc::InsecureChannelCredentials();
  }
  grpc::SslCredentialsOptions pem;
  SPARSEAGG_ASSIGN_OR_RETURN(pem.pem_root_certs, ReadText(options.tls->authority_file));
  SPARSEAGG_ASSIGN_OR_RETURN(pem.pem_cert_chain, ReadText(options.tls->certificate_file));
  SPARSEAGG_ASSIGN_OR_RETURN(pem.pem_private_key, ReadText(options.tls->key_file));
  return grpc::SslCredentials(pem);
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  return std::string(absl::StripAsciiWhitespace(text));
}

}  // namespace sparseagg::client

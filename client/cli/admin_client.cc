#include "client/cli/admin_client.h"

#include <httplib.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/cli/tensor_spec.h"
#include "client/transport/address.h"

namespace sparseagg::cli {
namespace {

constexpr int kConnectSeconds = 5;

// The message of a refusal.
std::string MessageOf(const httplib::Response& response) {
  const auto json = nlohmann::json::parse(response.body, nullptr, false);
  if (json.is_object() && json.value("error", nlohmann::json()).is_string()) {
    return json["error"].get<std::string>();
  }
  std::string text = response.body.substr(0, response.body.find('\n'));
  return text.empty() || json.is_object() ? absl::StrCat("status ", response.status) : text;
}

absl::StatusOr<std::string> Body(const httplib::Result& result, const std::string& address) {
  // A refused connection alone shows that there is no server: a stopped process keeps its port and
  // does not answer.
  const bool silent = result.error() == httplib::Error::Read ||
                      result.error() == httplib::Error::Write ||
                      result.error() == httplib::Error::ConnectionTimeout;
  if (silent) {
    return MakeError(absl::StatusCode::kDeadlineExceeded, "NO_ANSWER_IN_TIME",
                     absl::StrCat("no answer from the admin port ", address,
                                  " in time; the server hangs or is about to end"));
  }
  if (!result) {
    return MakeError(absl::StatusCode::kUnavailable, "CANNOT_REACH_ADMIN",
                     absl::StrCat("no answer from the admin port ", address,
                                  "; check --admin here and --admin-listen of the server"));
  }
  if (result->status / 100 != 2) {
    return absl::FailedPreconditionError(absl::StrCat(address, ": ", MessageOf(*result)));
  }
  return result->body;
}

httplib::Client Connect(const std::string& address, int timeout_s) {
  httplib::Client client("http://" + address);
  client.set_connection_timeout(std::min(kConnectSeconds, timeout_s));
  client.set_read_timeout(timeout_s);
  return client;
}

absl::StatusOr<std::string> ParseAdminAddress(const std::string& text) {
  SPARSEAGG_ASSIGN_OR_RETURN(const client::Address address,
                             client::ParseAddress(text, kDefaultAdminPort));
  // The other forms of an address begin with the name of a scheme.
  const bool is_host_and_port = address.hosts.size() == 1 && !address.by_authority &&
                                !absl::StartsWith(address.target, "dns:") &&
                                !absl::StartsWith(address.target, "ipv4:") &&
                                !absl::StartsWith(address.target, "ipv6:");
  if (is_host_and_port && !address.tls.value_or(false)) return address.target;
  return BadArgument(absl::StrCat("the admin port speaks HTTP without TLS; \"", text,
                                  "\" requests something else; give HOST:PORT"));
}

}  // namespace

std::string IsAdminAddress(const std::string& text) {
  return std::string(ParseAdminAddress(text).status().message());
}

void AddAdminFlag(CLI::App& command, std::string& admin) {
  command.add_option("--admin", admin, "Admin port of the server, host:port")
      ->check(IsAdminAddress)
      ->envname("SPARSEAGG_ADMIN")
      ->capture_default_str();
}

AdminClient::AdminClient(const std::string& address)
    : address_(ParseAdminAddress(address).value_or(address)) {}

absl::StatusOr<std::string> AdminClient::Get(const std::string& path, int timeout_s) const {
  return Body(Connect(address_, timeout_s).Get(path), address_);
}

absl::StatusOr<nlohmann::json> AdminClient::GetJson(const std::string& path) const {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::string body, Get(path));
  auto json = nlohmann::json::parse(body, nullptr, false);
  if (json.is_object()) return json;
  return absl::FailedPreconditionError(
      absl::StrCat(address_, " is not an admin port of sparseagg"));
}

absl::StatusOr<std::string> AdminClient::Post(const std::string& path, int timeout_s) const {
  const httplib::Headers headers = {{"X-Sparseagg-Admin", "1"}};
  return Body(Connect(address_, timeout_s).Post(path, headers, "", "text/plain"), address_);
}

}  // namespace sparseagg::cli

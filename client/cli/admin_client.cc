#include "client/cli/admin_client.h"

#include <httplib.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/tensor_spec.h"
#include "sparse/status.h"

namespace sparseagg::cli {
namespace {

constexpr int kConnectSeconds = 5;
constexpr int kAnswerSeconds = 10;

// What a refusal says about itself.
std::string MessageOf(const httplib::Response& response) {
  const auto json = nlohmann::json::parse(response.body, nullptr, false);
  if (json.is_object() && json.contains("error")) return json["error"].get<std::string>();
  std::string text = response.body.substr(0, response.body.find('\n'));
  return text.empty() ? absl::StrCat("status ", response.status) : text;
}

absl::StatusOr<std::string> Body(const httplib::Result& result, const std::string& address) {
  if (!result) {
    return MakeError(absl::StatusCode::kUnavailable, "CANNOT_REACH_ADMIN",
                     absl::StrCat("no answer from the admin port ", address,
                                  "; see --admin here and --admin-listen of the server"));
  }
  if (result->status / 100 != 2) {
    return absl::FailedPreconditionError(absl::StrCat(address, ": ", MessageOf(*result)));
  }
  return result->body;
}

httplib::Client Connect(const std::string& address, int timeout_s) {
  httplib::Client client("http://" + address);
  client.set_connection_timeout(kConnectSeconds);
  client.set_read_timeout(timeout_s);
  return client;
}

}  // namespace

void AddAdminFlag(CLI::App& command, std::string& admin) {
  command.add_option("--admin", admin, "Admin port of the server, host:port")
      ->check(IsAddress)
      ->envname("SPARSEAGG_ADMIN")
      ->capture_default_str();
}

AdminClient::AdminClient(std::string address) : address_(std::move(address)) {}

absl::StatusOr<std::string> AdminClient::Get(const std::string& path) const {
  return Body(Connect(address_, kAnswerSeconds).Get(path), address_);
}

absl::StatusOr<nlohmann::json> AdminClient::GetJson(const std::string& path) const {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::string body, Get(path));
  auto json = nlohmann::json::parse(body, nullptr, false);
  if (json.is_object()) return json;
  return absl::FailedPreconditionError(
      absl::StrCat(address_, " does not answer like an admin port of sparseagg"));
}

absl::StatusOr<std::string> AdminClient::Post(const std::string& path, int timeout_s) const {
  const httplib::Headers headers = {{"X-Sparseagg-Admin", "1"}};
  return Body(Connect(address_, timeout_s).Post(path, headers, "", "text/plain"), address_);
}

}  // namespace sparseagg::cli

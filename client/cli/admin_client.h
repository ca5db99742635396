// An HTTP client of a server's admin port (docs/operations.md), for `top`, `admin` and
// `healthcheck`.
#ifndef SPARSEAGG_CLIENT_CLI_ADMIN_CLIENT_H_
#define SPARSEAGG_CLIENT_CLI_ADMIN_CLIENT_H_

#include <cstdint>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace sparseagg::cli {

inline constexpr uint16_t kDefaultAdminPort = 50062;
inline constexpr char kDefaultAdmin[] = "127.0.0.1:50062";

// Adds --admin.
void AddAdminFlag(CLI::App& command, std::string& admin);
// Returns what is wrong with the address of an admin port, "" if it is valid.
std::string IsAdminAddress(const std::string& text);

// For one thread. Errors: UNAVAILABLE (CANNOT_REACH_ADMIN) without a connection, DEADLINE_EXCEEDED
// (NO_ANSWER_IN_TIME) without an answer, FAILED_PRECONDITION with the server's message if it
// refuses.
class AdminClient {
 public:
  // `address` is HOST or HOST:PORT, which passed IsAdminAddress(); the default port is 50062.
  explicit AdminClient(const std::string& address);

  // `timeout_s` bounds the time until the answer.
  absl::StatusOr<std::string> Get(const std::string& path, int timeout_s = 10) const;
  absl::StatusOr<nlohmann::json> GetJson(const std::string& path) const;
  absl::StatusOr<std::string> Post(const std::string& path, int timeout_s = 10) const;

 private:
  const std::string address_;
};

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_ADMIN_CLIENT_H_

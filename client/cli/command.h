// What the commands share: the flags of all of them, and how an outcome becomes output and an exit
// code. Results go to stdout, everything else to stderr; an error is one line that says what to do.
#ifndef SPARSEAGG_CLIENT_CLI_COMMAND_H_
#define SPARSEAGG_CLIENT_CLI_COMMAND_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/commands/commands.h"
#include "client/client.h"

namespace sparseagg::cli {

inline constexpr char kDefaultServer[] = "127.0.0.1:50061";

// Of a command whose caller says neither how often nor how long: a mistyped address is soon told.
inline constexpr uint32_t kAttempts = 5;

struct CommonFlags {
  std::string server = kDefaultServer;
  double timeout_s = 0;              // 0: the defaults of client::ClientOptions
  std::optional<uint32_t> attempts;  // not given: as many as --timeout allows, or kAttempts
  bool json = false;
  // Who the server is, and who calls.
  bool tls = false;
  client::TlsOptions tls_files;
  std::string token;
  std::string token_file;
};

// --server, --timeout, --attempts, --json, and those of TLS and tokens. Returns all but --json,
// which do nothing where no server is asked.
std::vector<const CLI::Option*> AddCommonFlags(CLI::App& command, CommonFlags& flags);
// BAD_ARGUMENT when one of `options` was given, and `flag`, beside which it does nothing. Variables
// of the environment are there for all commands and do not count.
absl::Status CheckExcluded(const CLI::App& command, const std::vector<const CLI::Option*>& options,
                           const std::string& flag);
// An option that may be given several times, with one value each: unlike CLI11's own way it does
// not swallow the arguments that follow.
CLI::Option* AddRepeated(CLI::App& command, const std::string& name,
                         std::vector<std::string>& values, const std::string& description);

// --json only, for what needs no server.
void AddJsonFlag(CLI::App& command, CommonFlags& flags);

// --wait and --wait-timeout, for the result of a round.
struct WaitFlags {
  bool wait = false;
  double timeout_s = 0;  // 0: without an end

  // For Client::Wait(). The shortest time that is no end is a millisecond.
  uint64_t timeout_ms() const;
};
void AddWaitFlags(CLI::App& command, WaitFlags& flags);

// `on_retry` as in client::ClientOptions.
absl::StatusOr<std::unique_ptr<client::Client>> Connect(
    const CommonFlags& flags, std::function<void(const absl::Status& why)> on_retry = {});

// For waiting on `round` of a server that has answered before: goes on without it, and says so on
// stderr, unless --attempts says how often.
absl::StatusOr<std::unique_ptr<client::Client>> ConnectToWait(const CommonFlags& flags,
                                                              const std::string& round);
// Until it is published.
absl::StatusOr<client::RoundInfo> WaitFor(const std::string& round, const WaitFlags& wait,
                                          const CommonFlags& flags);

// Makes `body` what `command` does: an error goes to stderr and into the exit code. `flags` must
// outlive the command; `body` keeps what it needs.
void SetBody(CLI::App& command, const CliContext& context, const CommonFlags& flags,
             std::function<absl::Status()> body);

// Writes an error to stderr and returns its exit code.
int Report(const absl::Status& error, const CommonFlags& flags);

int ExitCodeOf(const absl::Status& status);
// One line for people: the message, and what to do about it.
std::string ErrorLine(const absl::Status& status);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_COMMAND_H_

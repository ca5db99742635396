// What all commands share: common flags, and how an outcome becomes output and an exit code.
// Results go to stdout, everything else to stderr; an error is one line that says what to do.
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

// The number of attempts without --attempts and --timeout: few, so that a mistyped address is
// reported soon.
inline constexpr uint32_t kAttempts = 5;

struct CommonFlags {
  std::string server = kDefaultServer;
  double timeout_s = 0;              // 0: default of client::ClientOptions
  std::optional<uint32_t> attempts;  // unset: as many as --timeout allows, or kAttempts
  bool json = false;
  // Authentication of the server and of the caller.
  bool tls = false;
  client::TlsOptions tls_files;
  std::string token;
  std::string token_file;
};

// Adds --server, --timeout, --attempts, --json, and the flags of TLS and tokens. Returns all except
// --json; they have no effect in a command that calls no server.
std::vector<const CLI::Option*> AddCommonFlags(CLI::App& command, CommonFlags& flags);
// BAD_ARGUMENT if one of `options` was given, because it has no effect together with `flag`.
// Environment variables do not count, since they apply to all commands.
absl::Status CheckExcluded(const CLI::App& command, const std::vector<const CLI::Option*>& options,
                           const std::string& flag);
// Adds an option that may be given several times, with one value each. CLI11's own vector options
// would also take the arguments that follow.
CLI::Option* AddRepeated(CLI::App& command, const std::string& name,
                         std::vector<std::string>& values, const std::string& description);

// Adds --json only, for commands that need no server.
void AddJsonFlag(CLI::App& command, CommonFlags& flags);

// The flags --wait and --wait-timeout, for waiting for the result of a round.
struct WaitFlags {
  bool wait = false;
  double timeout_s = 0;  // 0: no limit

  // For Client::Wait(), where 0 means no limit: a positive time is at least one millisecond.
  uint64_t timeout_ms() const;
};
void AddWaitFlags(CLI::App& command, WaitFlags& flags);

// `on_retry` as in client::ClientOptions.
absl::StatusOr<std::unique_ptr<client::Client>> Connect(
    const CommonFlags& flags, std::function<void(const absl::Status& why)> on_retry = {});

// Connects to wait for `round` on a server that has answered before. If the server goes away, the
// client retries without limit and says so on stderr, unless --attempts is given.
absl::StatusOr<std::unique_ptr<client::Client>> ConnectToWait(const CommonFlags& flags,
                                                              const std::string& round);
// Waits until the round is published.
absl::StatusOr<client::RoundInfo> WaitFor(const std::string& round, const WaitFlags& wait,
                                          const CommonFlags& flags);

// Makes `command` run `body`, whose error goes to stderr and into the exit code. `flags` must
// outlive the command.
void SetBody(CLI::App& command, const CliContext& context, const CommonFlags& flags,
             std::function<absl::Status()> body);

// Writes an error to stderr and returns its exit code.
int Report(const absl::Status& error, const CommonFlags& flags);

int ExitCodeOf(const absl::Status& status);
// The error as one line: the message and what to do about it.
std::string ErrorLine(const absl::Status& status);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_COMMAND_H_

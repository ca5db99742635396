// A round that does not outlive its command: it is aborted and deleted at the end of the command,
// also when Ctrl-C or SIGTERM ends it.
#ifndef SPARSEAGG_CLIENT_CLI_LOAD_TEMPORARY_ROUND_H_
#define SPARSEAGG_CLIENT_CLI_LOAD_TEMPORARY_ROUND_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace sparseagg::cli {

// Thread-safe.
class TemporaryRound {
 public:
  // `connect` makes the client for deleting the round. It should not repeat calls and should have a
  // short timeout, so that the command ends even if the server is gone.
  using Connect = std::function<absl::StatusOr<std::unique_ptr<client::Client>>()>;
  explicit TemporaryRound(Connect connect) : connect_(std::move(connect)) {}

  void Opened(const std::string& name);
  // Aborts and deletes the round that was opened last, if it still exists. On an error the round
  // remains.
  absl::Status Erase();
  // The same, for the thread that ends the process. After it Erase() never returns on another
  // thread, which would otherwise report the aborted round as its outcome.
  absl::Status EraseForExit();

 private:
  absl::Status EraseLocked();

  const Connect connect_;
  std::mutex mutex_;
  std::string name_;  // empty: there is none
};

// At the first SIGINT or SIGTERM deletes the round, calls `exit_code` with the outcome, and ends
// the process with the exit code that it returns; a second signal ends the process at once.
// REQUIRES: no other thread exists; threads that start later inherit the signal mask.
void EraseOnInterrupt(std::shared_ptr<TemporaryRound> round,
                      std::function<int(const absl::Status& erased)> exit_code);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_LOAD_TEMPORARY_ROUND_H_

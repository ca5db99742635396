// A round that does not outlive its command: erased when the command is done with it, or when
// Ctrl-C or SIGTERM end the command before.
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
  // `connect` makes the client that erases. It should not repeat calls, nor take long for one: a
  // server that is gone would keep the command from its end.
  using Connect = std::function<absl::StatusOr<std::unique_ptr<client::Client>>()>;
  explicit TemporaryRound(Connect connect) : connect_(std::move(connect)) {}

  void Opened(const std::string& name);
  // Gives up and deletes the round that was opened last, if it is still there. The error says that
  // it is left.
  absl::Status Erase();
  // The same, for the thread that ends the process: no other returns from Erase() any more, and
  // takes a round that was given up for an outcome.
  absl::Status EraseAtTheEnd();

 private:
  absl::Status EraseLocked();

  const Connect connect_;
  std::mutex mutex_;
  std::string name_;  // empty: there is none
};

// At the first SIGINT or SIGTERM erases the round, calls `exit_code` with what came of that, and
// ends the process with its answer; the second one ends it at once. REQUIRES: no other thread
// exists; those started later inherit the mask of signals.
void EraseWhenInterrupted(std::shared_ptr<TemporaryRound> round,
                          std::function<int(const absl::Status& erased)> exit_code);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_LOAD_TEMPORARY_ROUND_H_

#include "client/cli/load/temporary_round.h"

#include <signal.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg::cli {

void TemporaryRound::Opened(const std::string& name) {
  const std::lock_guard lock(mutex_);
  name_ = name;
}

absl::Status TemporaryRound::Erase() {
  const std::lock_guard lock(mutex_);
  return EraseLocked();
}

absl::Status TemporaryRound::EraseForExit() {
  mutex_.lock();
  return EraseLocked();
}

absl::Status TemporaryRound::EraseLocked() {
  if (name_.empty()) return absl::OkStatus();
  const std::string name = std::exchange(name_, "");
  const auto erase = [&]() -> absl::Status {
    SPARSEAGG_ASSIGN_OR_RETURN(const auto client, connect_());
    const absl::Status aborted = client->Abort(name).status();
    // A server that does not answer this call would not answer the next one, either. Any other
    // error means that the round has ended.
    if (absl::IsUnavailable(aborted) || absl::IsDeadlineExceeded(aborted)) return aborted;
    return client->Delete(name);
  };
  const absl::Status erased = erase();
  if (erased.ok() || absl::IsNotFound(erased)) return absl::OkStatus();
  return WithMessage(erased,
                     absl::StrCat(name, " remains on the server: ", std::string(erased.message())));
}

void EraseOnInterrupt(std::shared_ptr<TemporaryRound> round,
                      std::function<int(const absl::Status& erased)> exit_code) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, round = std::move(round), exit_code = std::move(exit_code)] {
    int number = 0;
    while (sigwait(&signals, &number) != 0) {
    }
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);  // the next signal has its default action
    _exit(exit_code(round->EraseForExit()));
  }).detach();
}

}  // namespace sparseagg::cli

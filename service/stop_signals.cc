#include "service/stop_signals.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace sparseagg {
namespace {

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  return signals;
}

}  // namespace

void BlockStopSignals() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

int WaitForStopSignal(const std::function<void()>& on_hangup) {
  const sigset_t signals = StopSignals();
  while (true) {
    int number = 0;
    if (sigwait(&signals, &number) != 0) continue;
    if (number != SIGHUP) return number;
    on_hangup();
  }
}

void ExitOnNextStopSignal(int exit_code) {
  std::thread([exit_code] {
    WaitForStopSignal([] {});
    _exit(exit_code);
  }).detach();
}

void StopAtEndOfInput(int fd) {
  std::thread([fd] {
    char ignored[256];
    ssize_t bytes = 0;
    do {
      bytes = read(fd, ignored, sizeof(ignored));
    } while (bytes > 0 || (bytes < 0 && errno == EINTR));
    kill(getpid(), SIGTERM);
  }).detach();
}

}  // namespace sparseagg

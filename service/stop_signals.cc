#include "service/stop_signals.h"

#include <signal.h>
#include <unistd.h>

#include <thread>

namespace sparseagg {
namespace {

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

void BlockStopSignals() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

int WaitForStopSignal() {
  const sigset_t signals = StopSignals();
  int number = 0;
  while (sigwait(&signals, &number) != 0) {
  }
  return number;
}

void ExitOnNextStopSignal(int exit_code) {
  std::thread([exit_code] {
    WaitForStopSignal();
    _exit(exit_code);
  }).detach();
}

}  // namespace sparseagg

// SIGTERM, SIGINT and SIGHUP as things to wait for.
#ifndef SPARSEAGG_SERVICE_STOP_SIGNALS_H_
#define SPARSEAGG_SERVICE_STOP_SIGNALS_H_

#include <functional>

namespace sparseagg {

// Takes them signals away from their default action. REQUIRES: no other thread exists; threads
// started later inherit.
void BlockStopSignals();

// Waits for SIGTERM or SIGINT and returns its number. Calls `on_hangup` for each SIGHUP until then.
// REQUIRES: BlockStopSignals().
int WaitForStopSignal(const std::function<void()>& on_hangup);

// Ends the process with `exit_code` when another SIGTERM or SIGINT comes. Starts a thread that
// lives as long as the process.
void ExitOnNextStopSignal(int exit_code);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STOP_SIGNALS_H_

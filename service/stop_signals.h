// Waits for SIGTERM, SIGINT and SIGHUP.
#ifndef SPARSEAGG_SERVICE_STOP_SIGNALS_H_
#define SPARSEAGG_SERVICE_STOP_SIGNALS_H_

#include <functional>

namespace sparseagg {

// Blocks the three signals. REQUIRES: no other thread exists; threads that start later inherit the
// mask.
void BlockStopSignals();

// Waits for SIGTERM or SIGINT and returns its number. Calls `on_hangup` for each SIGHUP until then.
// REQUIRES: BlockStopSignals().
int WaitForStopSignal(const std::function<void()>& on_hangup);

// Ends the process with `exit_code` at the next SIGTERM or SIGINT. Starts a thread that lives as
// long as the process.
void ExitOnNextStopSignal(int exit_code);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STOP_SIGNALS_H_

// Waits for SIGTERM, SIGINT and SIGHUP, and makes the end of an input one of them.
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

// Sends this process SIGTERM when nothing more can be read from `fd`. A pipe ends with the last
// process that could write to it, however that process ended. Starts a thread that lives as long as
// this process. REQUIRES: BlockStopSignals().
void StopAtEndOfInput(int fd);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STOP_SIGNALS_H_

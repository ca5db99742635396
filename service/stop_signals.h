// SIGTERM and SIGINT as a thing to wait for.
#ifndef SPARSEAGG_SERVICE_STOP_SIGNALS_H_
#define SPARSEAGG_SERVICE_STOP_SIGNALS_H_

namespace sparseagg {

// Takes both signals away from their default action. REQUIRES: no other thread exists; threads
// started later inherit.
void BlockStopSignals();

// Waits for one of them; returns its number. REQUIRES: BlockStopSignals().
int WaitForStopSignal();

// Ends the process with `exit_code` when another one comes. Starts a thread that lives as long as
// the process.
void ExitOnNextStopSignal(int exit_code);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STOP_SIGNALS_H_

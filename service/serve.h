// Runs the server from its configuration to its end: admin port, back end, store, engine, gRPC
// server, HTTP edge, signals. SIGHUP reads the configuration again and applies its log level.
//
// Stop (SIGTERM or SIGINT): health NOT_SERVING; the engine refuses new rounds and updates
// (SERVER_DRAINING), watches end -> this state lasts for drain-delay-ms -> calls and publications
// in progress finish -> exit 0, at the latest drain-timeout-ms after the signal (or a second, if
// that is longer). Work that has not finished by then is cut off as by a crash: updates
// acknowledged as durable are kept, and a sealed durable round is published after the next start. A
// second signal ends the process at once.
#ifndef SPARSEAGG_SERVICE_SERVE_H_
#define SPARSEAGG_SERVICE_SERVE_H_

#include <functional>
#include <span>

#include "service/config/config.h"
#include "sparse/backend.h"

namespace sparseagg {

inline constexpr int kServeStopped = 0;  // stopped by a signal
inline constexpr int kServeFailed =
    1;  // no back end, the address in use, ...; the log has the error
inline constexpr int kServeUsage = 2;  // the command line or the configuration is wrong
inline constexpr int kServeKilled = 3;
inline constexpr int kServeGpuLost = 4;  // exit-on-gpu-loss; durable updates are kept
inline constexpr int kServeUnreachable =
    71;  // no connection is accepted (rpc/self_probe.h); restart it

using ReloadConfig = std::function<absl::StatusOr<LoadedConfig>()>;

// Returns an exit code. `reload` reads the configuration again from where `loaded` came from.
// REQUIRES: called from the main thread, before any other thread exists (it
// changes malloc's settings and the signal mask, which threads inherit).
int Serve(const LoadedConfig& loaded, const ReloadConfig& reload,
          std::span<const BackendFactory> backends);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_SERVE_H_

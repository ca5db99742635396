// Finds what would keep the server from starting, without starting it: it creates, writes and
// computes nothing, and listens on no address. For `sparseagg serve --check-config` before a
// restart.
#ifndef SPARSEAGG_SERVICE_COMMANDS_CHECK_CONFIG_H_
#define SPARSEAGG_SERVICE_COMMANDS_CHECK_CONFIG_H_

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "service/config/config.h"
#include "sparse/backend.h"

namespace sparseagg {

// Returns every error with which a start could end, in the order of a start: back end, transport
// and its files, credentials, audit log, port files, data directory. It does not check whether the
// addresses are free, because the running server uses them until the restart.
std::vector<absl::Status> CheckConfig(const ServerConfig& config,
                                      std::span<const BackendFactory> backends);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_COMMANDS_CHECK_CONFIG_H_

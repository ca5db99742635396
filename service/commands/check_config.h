// What would keep the server from starting, found without starting it: nothing is made, written,
// listened on or computed. `sparseagg serve --check-config` asks before a restart.
#ifndef SPARSEAGG_SERVICE_COMMANDS_CHECK_CONFIG_H_
#define SPARSEAGG_SERVICE_COMMANDS_CHECK_CONFIG_H_

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "service/config/config.h"
#include "sparse/backend.h"

namespace sparseagg {

// Every error that a start could end with, in the order in which starts would: back end, transport
// and its files, credentials, audit log, port files, data directory. Empty: none. Not whether the
// addresses are free: until the restart they are those of the server that runs.
std::vector<absl::Status> CheckConfig(const ServerConfig& config,
                                      std::span<const BackendFactory> backends);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_COMMANDS_CHECK_CONFIG_H_

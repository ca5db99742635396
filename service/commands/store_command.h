// The commands `sparseagg store check DIR` and `sparseagg store renew DIR`.
#ifndef SPARSEAGG_SERVICE_COMMANDS_STORE_COMMAND_H_
#define SPARSEAGG_SERVICE_COMMANDS_STORE_COMMAND_H_

#include <span>

#include "CLI/CLI.hpp"
#include "sparse/backend.h"

namespace sparseagg {

// Adds the commands. The one that runs stores its exit code in `exit_code`, which must outlive
// `app`.
void AddStoreCommand(CLI::App& app, std::span<const BackendFactory> backends, int& exit_code);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_COMMANDS_STORE_COMMAND_H_

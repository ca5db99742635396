// The command `sparseagg serve`: the settings as flags, --config, --check-config.
#ifndef SPARSEAGG_SERVICE_COMMANDS_SERVE_COMMAND_H_
#define SPARSEAGG_SERVICE_COMMANDS_SERVE_COMMAND_H_

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "sparse/backend.h"

namespace sparseagg {

struct Environment {
  std::function<std::optional<std::string>(const std::string& name)> value;
  std::vector<std::string> names;
};

// Adds the command. When it runs, it stores its exit code in `exit_code`, which must outlive `app`.
void AddServeCommand(CLI::App& app, std::span<const BackendFactory> backends,
                     Environment environment, int& exit_code);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_COMMANDS_SERVE_COMMAND_H_

// The command `sparseagg token new`: a bearer token, and the row of the credentials file for it.
#ifndef SPARSEAGG_SERVICE_COMMANDS_TOKEN_COMMAND_H_
#define SPARSEAGG_SERVICE_COMMANDS_TOKEN_COMMAND_H_

#include "CLI/CLI.hpp"

namespace sparseagg {

// Adds the command. When it runs, it stores its exit code in `exit_code`, which must outlive `app`.
void AddTokenCommand(CLI::App& app, int& exit_code);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_COMMANDS_TOKEN_COMMAND_H_

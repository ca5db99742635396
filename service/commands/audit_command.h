// The command `sparseagg audit verify FILE`.
#ifndef SPARSEAGG_SERVICE_COMMANDS_AUDIT_COMMAND_H_
#define SPARSEAGG_SERVICE_COMMANDS_AUDIT_COMMAND_H_

#include "CLI/CLI.hpp"

namespace sparseagg {

// Adds the command. When it runs, it stores its exit code in `exit_code`, which must outlive `app`.
void AddAuditCommand(CLI::App& app, int& exit_code);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_COMMANDS_AUDIT_COMMAND_H_

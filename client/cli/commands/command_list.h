// One function for each file of commands; commands.cc calls all of them.
#ifndef SPARSEAGG_CLIENT_CLI_COMMANDS_COMMAND_LIST_H_
#define SPARSEAGG_CLIENT_CLI_COMMANDS_COMMAND_LIST_H_

#include "CLI/CLI.hpp"
#include "client/cli/commands/commands.h"

namespace sparseagg::cli {

void AddRoundCommands(CLI::App& app, const CliContext& context);
void AddPartialCommands(CLI::App& app, const CliContext& context);
void AddTreeCommands(CLI::App& app, const CliContext& context);
void AddTaskCommands(CLI::App& app, const CliContext& context);
void AddPushCommand(CLI::App& app, const CliContext& context);
void AddPullCommand(CLI::App& app, const CliContext& context);
void AddReduceCommand(CLI::App& app, const CliContext& context);
void AddBenchCommand(CLI::App& app, const CliContext& context);
void AddInfoCommands(CLI::App& app, const CliContext& context);
void AddTopCommand(CLI::App& app, const CliContext& context);
void AddAdminCommands(CLI::App& app, const CliContext& context);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_COMMANDS_COMMAND_LIST_H_

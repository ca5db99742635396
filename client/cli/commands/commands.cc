#include "client/cli/commands/commands.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "client/cli/commands/command_list.h"

namespace sparseagg {

void AddCommands(CLI::App& app, const CliContext& context) {
  cli::AddRoundCommands(app, context);
  cli::AddPartialCommands(app, context);
  cli::AddTreeCommands(app, context);
  cli::AddTaskCommands(app, context);
  cli::AddPushCommand(app, context);
  cli::AddPullCommand(app, context);
  cli::AddReduceCommand(app, context);
  cli::AddBenchCommand(app, context);
  cli::AddInfoCommands(app, context);
  cli::AddTopCommand(app, context);
  cli::AddAdminCommands(app, context);
  app.footer(
      "Exit codes: 0 done, 1 refused by the server or invalid data, 2 wrong command line,\n"
      "3 no connection or no answer in time, 4 no such round or task, 5 the round was aborted,\n"
      "130 interrupted.");
}

int RunCommandLine(CLI::App& app, int argc, const char* const* argv, const int& exit_code) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 also throws for --help and --version, with code 0 and the text for stdout.
    if (error.get_exit_code() == 0) return app.exit(error);
    const CLI::App* command = &app;
    std::string name = app.get_name();
    while (!command->get_subcommands().empty()) {
      command = command->get_subcommands().front();
      name += " " + command->get_name();
    }
    std::string line = error.what();
    // An unknown word is the likely cause of any other error.
    const std::vector<std::string> unknown = command->remaining();
    if (!unknown.empty()) line = unknown.front() + " is unknown here";
    std::replace(line.begin(), line.end(), '\n', ' ');
    std::fprintf(stderr, "sparseagg: %s; `%s --help` shows the usage\n", line.c_str(),
                 name.c_str());
    return kExitUsage;
  }
  return exit_code;
}

}  // namespace sparseagg

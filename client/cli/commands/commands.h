// The commands of the `sparseagg` program, apart from `serve`: round, push, pull, reduce, bench,
// info and healthcheck. docs/cli.md describes them for users.
//
// CLI11 runs commands while it parses. So a command writes its output to stdout and stderr, and its
// exit code to *context.exit_code, which it never lowers. RunCommandLine() returns that code;
// errors of usage become kExitUsage.
#ifndef SPARSEAGG_CLIENT_CLI_COMMANDS_COMMANDS_H_
#define SPARSEAGG_CLIENT_CLI_COMMANDS_COMMANDS_H_

#include <span>

#include "sparse/backend.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}  // namespace CLI

namespace sparseagg {

// Exit codes of the program.
inline constexpr int kExitOk = 0;
inline constexpr int kExitRefused = 1;        // refused by the server, or invalid data or files
inline constexpr int kExitUsage = 2;          // wrong command line
inline constexpr int kExitCannotConnect = 3;  // no connection, or no answer in time
inline constexpr int kExitNotFound = 4;       // no such round
inline constexpr int kExitAborted = 5;        // the round ended without a result
inline constexpr int kExitInterrupted = 130;  // ended by a signal; the shells' code for SIGINT

struct CliContext {
  std::span<const BackendFactory> backends;  // for reduce --local; must outlive the commands
  int* exit_code = nullptr;                  // must outlive the commands; starts as kExitOk
};

// Adds the commands to `app`. REQUIRES: context.exit_code != nullptr.
void AddCommands(CLI::App& app, const CliContext& context);

// Parses and runs, and returns the exit code: kExitUsage with one line on stderr when the command
// line is wrong, else `exit_code` as the commands left it. `exit_code` is that of the context.
int RunCommandLine(CLI::App& app, int argc, const char* const* argv, const int& exit_code);

}  // namespace sparseagg

#endif  // SPARSEAGG_CLIENT_CLI_COMMANDS_COMMANDS_H_

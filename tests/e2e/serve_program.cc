// The server without the commands of clients, which are half of what the program compiles. The
// preset life_cycle tests this program (SPARSEAGG_E2E_PROGRAM).
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "service/commands/serve_command.h"
#include "sparse/backend.h"

int main(int argc, char** argv) {
  CLI::App app("Exact sums of sparse federated updates", "sparseagg");
  int exit_code = 0;
  const auto no_variable = [](const std::string&) { return std::optional<std::string>(); };
  sparseagg::AddServeCommand(app, sparseagg::AllBackends(), {no_variable, {}}, exit_code);
  CLI11_PARSE(app, argc, argv);
  return exit_code;
}

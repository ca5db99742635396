// The program `sparseagg`: the server and the command line. Puts the parts together; holds no logic
// of its own.
#include <cstdlib>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "service/serve.h"
#include "service/serve_command.h"
#include "sparse/backend.h"

namespace {

std::optional<std::string> Variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Exact sums of sparse federated updates", "sparseagg");
  app.set_version_flag("--version", std::string("sparseagg ") + SPARSEAGG_VERSION);
  app.require_subcommand(1);
  int exit_code = 0;
  sparseagg::AddServeCommand(app, sparseagg::AllBackends(), &Variable, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool asked_for_help = error.get_exit_code() == 0;
    app.exit(error);
    return asked_for_help ? 0 : sparseagg::kExitUsage;
  }
  return exit_code;
}

// The program `sparseagg`: the server and the command line. Puts the parts together; holds no logic
// of its own.
#include <grpc/support/log.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/synchronization/mutex.h"
#include "client/cli/commands/commands.h"
#include "service/commands/audit_command.h"
#include "service/commands/serve_command.h"
#include "service/commands/store_command.h"
#include "service/commands/token_command.h"
#include "sparse/backend.h"

extern "C" char** environ;  // of the system, in no header of the language

namespace {

std::optional<std::string> Variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

sparseagg::Environment ProcessEnvironment() {
  sparseagg::Environment environment{&Variable, {}};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    environment.names.push_back(std::string(*entry, std::strcspn(*entry, "=")));
  }
  return environment;
}

// gRPC would write to standard error in a format of its own, beside our lines. Who asks for that
// gets it.
void SilenceGrpcLog() {
  if (!Variable("GRPC_VERBOSITY").has_value()) gpr_set_log_function([](gpr_log_func_args*) {});
}

// Debian's Abseil has its debugging checks on. This one follows every lock that gRPC takes through
// one graph, and so through one lock of all threads.
void LookForNoDeadlocks() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

// CUDA would load each kernel when a round first needs it, for milliseconds on the device thread.
// All of them are loaded with the first call instead, before the server is ready. The runtime has
// no function for this; it reads the variable in that call.
void LoadKernelsAtOnce() { setenv("CUDA_MODULE_LOADING", "EAGER", 0); }

}  // namespace

int main(int argc, char** argv) {
  SilenceGrpcLog();
  LookForNoDeadlocks();
  LoadKernelsAtOnce();
  CLI::App app("Exact sums of sparse federated updates", "sparseagg");
  app.set_version_flag("--version", std::string("sparseagg ") + SPARSEAGG_VERSION);
  app.require_subcommand(1);
  int exit_code = sparseagg::kExitOk;
  sparseagg::AddServeCommand(app, sparseagg::AllBackends(), ProcessEnvironment(), exit_code);
  sparseagg::AddStoreCommand(app, sparseagg::AllBackends(), exit_code);
  sparseagg::AddTokenCommand(app, exit_code);
  sparseagg::AddAuditCommand(app, exit_code);
  sparseagg::AddCommands(app, {.backends = sparseagg::AllBackends(), .exit_code = &exit_code});
  return sparseagg::RunCommandLine(app, argc, argv, exit_code);
}

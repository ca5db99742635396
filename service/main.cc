// The program `sparseagg`: the server and the command line. It assembles the parts and has no logic
// of its own.
#include <grpc/support/log.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/synchronization/mutex.h"
#include "base/float_environment.h"
#include "client/cli/commands/commands.h"
#include "service/commands/audit_command.h"
#include "service/commands/serve_command.h"
#include "service/commands/store_command.h"
#include "service/commands/token_command.h"
#include "sparse/backend.h"

extern "C" char** environ;  // POSIX; no C++ header declares it

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

// gRPC would mix lines in its own format with ours on standard error. The variable turns them on.
void SilenceGrpcLog() {
  if (!Variable("GRPC_VERBOSITY").has_value()) gpr_set_log_function([](gpr_log_func_args*) {});
}

// Debian's Abseil is built with debugging checks. The deadlock detector records every lock that
// gRPC takes in one graph, under one lock for all threads.
void LookForNoDeadlocks() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

// CUDA would load each kernel when a round first needs it, which takes milliseconds on the device
// thread. With this variable the first call loads all of them, before the server is ready. The
// runtime has no function for this; it reads the variable in that call.
void LoadKernelsAtOnce() { setenv("CUDA_MODULE_LOADING", "EAGER", 0); }

}  // namespace

int main(int argc, char** argv) {
  // A preloaded library may have left other settings. Every thread takes these over.
  const sparseagg::DefaultFloatEnvironment usual;
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

#include "service/serve_command.h"

#include <iostream>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/check_config.h"
#include "service/config.h"
#include "service/serve.h"

namespace sparseagg {
namespace {

struct ServeArgs {
  std::map<std::string, std::string, std::less<>> flags;
  std::string config_file;
  bool check_config = false;
};

std::string HelpOf(const Setting& setting) {
  std::string help(setting.help);
  const std::string default_value = setting.print(ServerConfig());
  absl::StrAppend(&help, " [",
                  setting.unit.empty() ? "" : absl::StrCat(std::string(setting.unit), ", "),
                  "default ", default_value.empty() ? "\"\"" : default_value, "] (",
                  EnvironmentName(setting.name), ")");
  return help;
}

int RunServe(const ServeArgs& args, std::span<const BackendFactory> backends,
             const Environment& environment) {
  ConfigSources sources{args.flags, environment, args.config_file};
  if (sources.file.empty()) sources.file = environment("SPARSEAGG_CONFIG").value_or("");
  const absl::StatusOr<LoadedConfig> loaded = LoadConfig(sources);
  if (!loaded.ok()) {
    std::cerr << "sparseagg serve: " << loaded.status().message() << "\n";
    return kServeUsage;
  }
  if (args.check_config) {
    std::cout << PrintConfig(*loaded);
    const absl::Status status = CheckConfig(loaded->config, backends);
    if (status.ok()) return 0;
    std::cerr << "sparseagg serve: " << status.message() << "\n";
    return kServeFailed;
  }
  return Serve(
      *loaded, [&sources] { return LoadConfig(sources); }, backends);
}

}  // namespace

void AddServeCommand(CLI::App& app, std::span<const BackendFactory> backends,
                     Environment environment, int& exit_code) {
  const auto args = std::make_shared<ServeArgs>();
  CLI::App* command = app.add_subcommand("serve", "Run the server");
  command->add_option("--config", args->config_file,
                      "Configuration file: lines of `key = value` (SPARSEAGG_CONFIG)");
  command->add_flag(
      "--check-config", args->check_config,
      "Print the effective configuration and the source of each value, say what would keep the "
      "server from starting, and end");
  for (const Setting& setting : Settings()) {
    const std::string name(setting.name);
    CLI::Option* option = command->add_option_function<std::string>(
        "--" + name, [args, name](const std::string& value) { args->flags[name] = value; },
        HelpOf(setting));
    const std::string default_value = setting.print(ServerConfig());
    if (default_value == "true" || default_value == "false") {
      option->expected(0, 1)->default_str("true");
    }
  }
  command->callback([args, backends, environment = std::move(environment), &exit_code] {
    exit_code = RunServe(*args, backends, environment);
  });
}

}  // namespace sparseagg

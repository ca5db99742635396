#include "service/commands/serve_command.h"

#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/commands/check_config.h"
#include "service/config/config.h"
#include "service/serve.h"

namespace sparseagg {
namespace {

constexpr char kConfigVariable[] = "SPARSEAGG_CONFIG";

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

// The environment variables that options of `app` and of its commands read.
void AddVariablesOf(const CLI::App& app, std::set<std::string>& names) {
  for (const CLI::Option* option : app.get_options()) names.insert(option->get_envname());
  const auto all = [](const CLI::App*) { return true; };
  for (const CLI::App* command : app.get_subcommands(all)) AddVariablesOf(*command, names);
}

// The environment variables that no command but `serve` reads.
std::vector<std::string> OtherVariables(const CLI::App& app, const Environment& environment) {
  std::set<std::string> known = {kConfigVariable,
                                 "SPARSEAGG_BINARY"};  // used by the Python package
  AddVariablesOf(app, known);
  std::vector<std::string> others = environment.names;
  std::erase_if(others, [&](const std::string& name) { return known.contains(name); });
  return others;
}

void PrintProblem(const std::string& problem) {
  std::cerr << "sparseagg serve: " << problem << "\n";
}

int RunServe(const ServeArgs& args, std::span<const BackendFactory> backends, const CLI::App& app,
             const Environment& environment) {
  ConfigSources sources{args.flags, environment.value, args.config_file,
                        OtherVariables(app, environment)};
  if (sources.file.empty()) sources.file = environment.value(kConfigVariable).value_or("");
  const absl::StatusOr<LoadedConfig> loaded = LoadConfig(sources);
  if (!loaded.ok()) {
    PrintProblem(std::string(loaded.status().message()));
    return kServeUsage;
  }
  if (args.check_config) {
    std::cout << PrintConfig(*loaded);
    for (const std::string& name : loaded->unknown_variables) {
      PrintProblem(absl::StrCat("warning: the environment variable ", name,
                                " is not a setting and has no effect"));
    }
    const std::vector<absl::Status> errors = CheckConfig(loaded->config, backends);
    for (const absl::Status& error : errors) PrintProblem(std::string(error.message()));
    return errors.empty() ? 0 : kServeFailed;
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
                      "Configuration file with lines `key = value` (SPARSEAGG_CONFIG)");
  command->add_flag("--check-config", args->check_config,
                    "Print the effective configuration with the source of each value, and "
                    "everything that would keep the server from starting, without starting it");
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
  command->callback([args, backends, &app, environment = std::move(environment), &exit_code] {
    exit_code = RunServe(*args, backends, app, environment);
  });
}

}  // namespace sparseagg

// info and healthcheck
#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/cli/admin_client.h"
#include "client/cli/command.h"
#include "client/cli/commands/command_list.h"
#include "client/cli/output.h"
#include "client/cli/tensor_spec.h"

namespace sparseagg::cli {
namespace {

absl::Status Info(const CommonFlags& flags) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto client, Connect(flags));
  SPARSEAGG_ASSIGN_OR_RETURN(const client::ServerInfo info, client->Info());
  flags.json ? PrintJson(ToJson(info)) : Print(ToText(info));
  return absl::OkStatus();
}

constexpr int kHealthSeconds = 5;

// Readiness through the admin port, which needs neither certificate nor token.
absl::Status CheckReady(const std::string& admin, const CommonFlags& flags) {
  const int timeout_s =
      flags.timeout_s > 0 ? static_cast<int>(std::ceil(flags.timeout_s)) : kHealthSeconds;
  const auto answer = AdminClient(admin).Get("/readyz", timeout_s);
  if (!answer.ok()) return absl::UnavailableError(answer.status().message());
  flags.json ? PrintJson({{"ready", true}, {"admin", admin}})
             : Print(absl::StrCat(admin, " is ready\n"));
  return absl::OkStatus();
}

absl::Status HealthCheck(const CommonFlags& flags) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto client, Connect(flags));
  SPARSEAGG_ASSIGN_OR_RETURN(const client::ServerInfo info, client->Info());
  if (flags.json) {
    PrintJson({{"healthy", true}, {"server", flags.server}, {"version", info.version}});
  } else {
    Print(absl::StrCat(flags.server, " answers\n"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddInfoCommands(CLI::App& app, const CliContext& context) {
  auto info_flags = std::make_shared<CommonFlags>();
  CLI::App& info =
      *app.add_subcommand("info", "Print version, back ends, operators and limits of the server");
  AddCommonFlags(info, *info_flags);
  SetBody(info, context, *info_flags, [info_flags] { return Info(*info_flags); });

  auto health_flags = std::make_shared<CommonFlags>();
  health_flags->attempts = 1;
  health_flags->timeout_s = kHealthSeconds;
  CLI::App& health = *app.add_subcommand(
      "healthcheck", "Check that the server answers (exit code 0; 3 if it does not)");
  AddCommonFlags(health, *health_flags);
  auto admin = std::make_shared<std::string>();
  health
      .add_option("--admin", *admin,
                  "Check at the admin port HOST:PORT that the server is ready, instead")
      ->check(IsAdminAddress);
  SetBody(health, context, *health_flags, [health_flags, admin] {
    return admin->empty() ? HealthCheck(*health_flags) : CheckReady(*admin, *health_flags);
  });
}

}  // namespace sparseagg::cli

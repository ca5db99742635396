// admin drain | config | log-level | profile
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/cli/admin_client.h"
#include "client/cli/command.h"
#include "client/cli/commands/command_list.h"
#include "client/cli/output.h"

namespace sparseagg::cli {
namespace {

struct AdminFlags {
  CommonFlags common;  // for --json
  std::string admin = kDefaultAdmin;
  std::string level;
  std::string out = "sparseagg.prof";
  int seconds = 10;
  int wait_s = 60;
};

CLI::App& AddAdminCommand(CLI::App& parent, const char* name, const char* description,
                          AdminFlags& flags) {
  CLI::App& command = *parent.add_subcommand(name, description);
  AddAdminFlag(command, flags.admin);
  AddJsonFlag(command, flags.common);
  return command;
}

// Stops the server and waits until it is gone.
absl::Status Drain(const AdminFlags& flags) {
  constexpr int kLookSeconds = 1;
  const AdminClient client(flags.admin);
  SPARSEAGG_RETURN_IF_ERROR(client.Post("/api/drain").status());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(flags.wait_s);
  // Any answer, or none, means that the process exists; it is gone when the connection is refused.
  while (ErrorReason(client.Get("/healthz", kLookSeconds).status()) != "CANNOT_REACH_ADMIN") {
    if (std::chrono::steady_clock::now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(flags.admin, " has not stopped after ", flags.wait_s, " s"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  flags.common.json ? PrintJson({{"stopped", true}}) : Print("stopped\n");
  return absl::OkStatus();
}

absl::Status Config(const AdminFlags& flags) {
  SPARSEAGG_ASSIGN_OR_RETURN(const nlohmann::json config,
                             AdminClient(flags.admin).GetJson("/api/config"));
  if (flags.common.json) {
    PrintJson(config);
    return absl::OkStatus();
  }
  for (const auto& row : config.at("settings")) {
    Print(absl::StrCat(row.at("name").get<std::string>(), " = ", row.at("value").get<std::string>(),
                       "  # ", row.at("source").get<std::string>(), "\n"));
  }
  return absl::OkStatus();
}

absl::Status SetLogLevel(const AdminFlags& flags) {
  SPARSEAGG_RETURN_IF_ERROR(
      AdminClient(flags.admin).Post("/api/log-level?level=" + flags.level).status());
  flags.common.json ? PrintJson({{"log_level", flags.level}})
                    : Print(absl::StrCat("log level ", flags.level, "\n"));
  return absl::OkStatus();
}

absl::Status Profile(const AdminFlags& flags) {
  constexpr int kSpareSeconds = 30;
  SPARSEAGG_ASSIGN_OR_RETURN(const std::string profile,
                             AdminClient(flags.admin)
                                 .Post(absl::StrCat("/api/profile?seconds=", flags.seconds),
                                       flags.seconds + kSpareSeconds));
  std::ofstream file(flags.out, std::ios::binary | std::ios::trunc);
  file << profile;
  file.close();
  if (!file) return absl::PermissionDeniedError("cannot write " + flags.out);
  flags.common.json ? PrintJson({{"file", flags.out}, {"bytes", profile.size()}})
                    : Print(absl::StrCat("wrote ", flags.out, "; `google-pprof --text ",
                                         "$(command -v sparseagg) ", flags.out, "` reads it\n"));
  return absl::OkStatus();
}

}  // namespace

void AddAdminCommands(CLI::App& app, const CliContext& context) {
  CLI::App& admin =
      *app.add_subcommand("admin", "Inspect a running server, change its log level or stop it");
  admin.require_subcommand(1);
  const auto add = [&](const char* name, const char* description,
                       absl::Status (*body)(const AdminFlags&)) {
    auto flags = std::make_shared<AdminFlags>();
    CLI::App& command = AddAdminCommand(admin, name, description, *flags);
    SetBody(command, context, flags->common, [flags, body] { return body(*flags); });
    return std::pair(&command, flags);
  };

  const auto [drain, drain_flags] =
      add("drain", "Stop the server as SIGTERM does, and wait until it has ended", &Drain);
  drain->add_option("--wait", drain_flags->wait_s, "Seconds to wait")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();

  add("config", "Print every setting in effect, and its source", &Config);

  const auto [level, level_flags] =
      add("log-level", "Change the log level until the next restart", &SetLogLevel);
  level->add_option("level", level_flags->level, "debug, info, warning or error")
      ->required()
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));

  const auto [profile, profile_flags] =
      add("profile", "Record a CPU profile of the server, for pprof", &Profile);
  profile->add_option("--seconds", profile_flags->seconds, "Seconds to record")
      ->check(CLI::Range(1, 300))
      ->capture_default_str();
  profile->add_option("-o,--out", profile_flags->out, "File to write")->capture_default_str();
}

}  // namespace sparseagg::cli

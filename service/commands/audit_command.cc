#include "service/commands/audit_command.h"

#include <iostream>
#include <memory>
#include <string>

#include "service/audit/audit_log.h"

namespace sparseagg {
namespace {

int Verify(const std::string& path) {
  const auto summary = VerifyAuditLog(path);
  if (!summary.ok()) {
    std::cerr << "sparseagg: " << summary.status().message() << "\n";
    return 1;
  }
  std::cout << summary->lines << " lines, every one follows the one before it; the last is "
            << summary->last_hash << "\n";
  if (summary->torn_bytes > 0) {
    std::cout << summary->torn_bytes << " bytes of a line that a crash cut off follow\n";
  }
  return 0;
}

}  // namespace

void AddAuditCommand(CLI::App& app, int& exit_code) {
  CLI::App* audit = app.add_subcommand("audit", "Look at an audit log");
  audit->require_subcommand(1);
  CLI::App* verify = audit->add_subcommand(
      "verify", "Whether every line is what was written: names the first that is not");
  const auto path = std::make_shared<std::string>();
  verify->add_option("FILE", *path, "What the server was given as --audit-log")->required();
  verify->callback([path, &exit_code] { exit_code = Verify(*path); });
}

}  // namespace sparseagg

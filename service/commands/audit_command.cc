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
  std::cout << summary->lines << " lines, each follows the one before it; the hash of the last is "
            << summary->last_hash << "\n";
  if (summary->torn_bytes > 0) {
    std::cout << summary->torn_bytes
              << " bytes of an incomplete line follow, which a crash cut off\n";
  }
  return 0;
}

}  // namespace

void AddAuditCommand(CLI::App& app, int& exit_code) {
  CLI::App* audit = app.add_subcommand("audit", "Check an audit log");
  audit->require_subcommand(1);
  CLI::App* verify = audit->add_subcommand(
      "verify",
      "Check that no line was changed, removed or inserted; name the first that does not fit");
  const auto path = std::make_shared<std::string>();
  verify->add_option("FILE", *path, "Audit log (--audit-log of the server)")->required();
  verify->callback([path, &exit_code] { exit_code = Verify(*path); });
}

}  // namespace sparseagg

// tree status
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "client/cli/command.h"
#include "client/cli/commands/command_list.h"
#include "client/cli/output.h"

namespace sparseagg::cli {
namespace {

absl::Status Status(const CommonFlags& flags) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto client, Connect(flags));
  SPARSEAGG_ASSIGN_OR_RETURN(const client::ServerInfo info, client->Info());
  if (flags.json) {
    nlohmann::json leaves = nlohmann::json::array();
    for (const client::LeafStatus& leaf : info.leaves) {
      leaves.push_back({{"id", leaf.leaf.id},
                        {"address", leaf.leaf.address},
                        {"up", leaf.up},
                        {"silent_ms", leaf.silent_for.count()},
                        {"error", leaf.error},
                        {"rounds", leaf.rounds},
                        {"partial_bytes", leaf.partial_bytes},
                        {"given_up", leaf.given_up}});
    }
    PrintJson({{"leaves", leaves}});
    return absl::OkStatus();
  }
  if (info.leaves.empty()) {
    Print(absl::StrCat(flags.server, " has no leaves\n"));
    return absl::OkStatus();
  }
  std::string text = absl::StrFormat("%-24s %-24s %-5s %8s %6s %10s %8s\n", "LEAF", "ADDRESS",
                                     "STATE", "SILENT", "ROUNDS", "RECEIVED", "GIVEN UP");
  for (const client::LeafStatus& leaf : info.leaves) {
    absl::StrAppendFormat(&text, "%-24s %-24s %-5s %8s %6d %10s %8d\n", leaf.leaf.id,
                          leaf.leaf.address, leaf.up ? "up" : "down",
                          FormatSeconds(static_cast<double>(leaf.silent_for.count()) / 1000),
                          leaf.rounds, FormatBytes(leaf.partial_bytes), leaf.given_up);
    if (!leaf.error.empty()) absl::StrAppend(&text, "  ", leaf.error, "\n");
  }
  Print(text);
  return absl::OkStatus();
}

}  // namespace

void AddTreeCommands(CLI::App& app, const CliContext& context) {
  CLI::App& tree = *app.add_subcommand("tree", "Servers with leaves (docs/trees.md)");
  tree.require_subcommand(1);
  auto flags = std::make_shared<CommonFlags>();
  CLI::App& status =
      *tree.add_subcommand("status", "Print the leaves of the server, and their state");
  AddCommonFlags(status, *flags);
  SetBody(status, context, *flags, [flags] { return Status(*flags); });
}

}  // namespace sparseagg::cli

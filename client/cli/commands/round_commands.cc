// round create | list | show | seal | abort | delete | watch | verify
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/cli/command.h"
#include "client/cli/commands/command_list.h"
#include "client/cli/output.h"
#include "client/cli/policy_flags.h"
#include "client/cli/tensor_files.h"
#include "client/cli/tensor_spec.h"

namespace sparseagg::cli {
namespace {

struct RoundFlags {
  CommonFlags common;
  std::string round;
  WaitFlags wait;  // for `round seal`
};

struct CreateFlags {
  CommonFlags common;
  std::string id;
  std::vector<std::string> tensors;
  std::vector<std::string> like;
  std::string op = "sum";
  std::string dtype;
  std::string overflow;
  std::string durability;
  std::string request_id;
  PolicyFlags policy;
  bool keep_updates = false;
  bool publish_partial = false;
  bool owners = false;
};

CLI::App& AddRoundCommand(CLI::App& parent, const char* name, const char* description,
                          RoundFlags& flags) {
  CLI::App& command = *parent.add_subcommand(name, description);
  command.add_option("round", flags.round, "Name of the round: rounds/ID or ID")->required();
  AddCommonFlags(command, flags.common);
  return command;
}

void PrintRound(const client::RoundInfo& round, const CommonFlags& flags) {
  flags.json ? PrintJson(ToJson(round)) : Print(ToText(round));
}

absl::StatusOr<std::vector<TensorSpec>> SpecsOf(const CreateFlags& flags) {
  std::vector<TensorSpec> specs;
  for (const std::string& text : flags.tensors) {
    SPARSEAGG_ASSIGN_OR_RETURN(TensorSpec spec, ParseTensorSpec(text));
    specs.push_back(std::move(spec));
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const std::optional<ValueType> dtype, ParseOptionalType(flags.dtype));
  for (const std::string& file : flags.like) {
    SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<client::Tensor> tensors,
                               ReadFileArgument(file, dtype));
    for (const client::Tensor& tensor : tensors) {
      TensorSpec spec = client::SpecOf(tensor);
      if (spec.name.empty()) spec.name = kUnnamedTensor;
      spec.op = flags.op;
      if (!flags.overflow.empty()) {
        SPARSEAGG_ASSIGN_OR_RETURN(spec.integer_overflow, ParseOverflowArgument(flags.overflow));
      }
      specs.push_back(std::move(spec));
    }
  }
  if (specs.empty()) return BadArgument("a round needs a tensor: give --tensor or --like");
  return specs;
}

absl::Status Create(const CreateFlags& flags) {
  client::NewRound round;
  round.id = flags.id;
  round.request_id = flags.request_id;
  SPARSEAGG_ASSIGN_OR_RETURN(round.tensors, SpecsOf(flags));
  SPARSEAGG_ASSIGN_OR_RETURN(round.policy, PolicyOf(flags.policy));
  round.keep_updates = flags.keep_updates;
  round.publish_partial = flags.publish_partial;
  round.owners = flags.owners;
  if (flags.durability == "memory") round.durability = client::Durability::kMemory;
  if (flags.durability == "durable") round.durability = client::Durability::kDurable;
  SPARSEAGG_ASSIGN_OR_RETURN(const auto client, Connect(flags.common));
  SPARSEAGG_ASSIGN_OR_RETURN(const client::RoundInfo created, client->CreateRound(round));
  // Prints the name alone, so that ROUND=$(sparseagg round create ...) works.
  flags.common.json ? PrintJson(ToJson(created)) : Print(created.name + "\n");
  return absl::OkStatus();
}

absl::Status List(const CommonFlags& flags) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto client, Connect(flags));
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<client::RoundInfo> rounds, client->ListRounds());
  if (!flags.json) {
    Print(ToText(rounds));
    return absl::OkStatus();
  }
  nlohmann::json list = nlohmann::json::array();
  for (const client::RoundInfo& round : rounds) list.push_back(ToJson(round));
  PrintJson({{"rounds", list}});
  return absl::OkStatus();
}

absl::Status Show(const RoundFlags& flags) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto client, Connect(flags.common));
  SPARSEAGG_ASSIGN_OR_RETURN(const client::RoundInfo round, client->GetRound(flags.round));
  PrintRound(round, flags.common);
  return absl::OkStatus();
}

absl::Status Seal(const RoundFlags& flags) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto client, Connect(flags.common));
  SPARSEAGG_ASSIGN_OR_RETURN(client::RoundInfo round, client->Seal(flags.round));
  if (flags.wait.wait) {
    SPARSEAGG_ASSIGN_OR_RETURN(round, WaitFor(flags.round, flags.wait, flags.common));
  }
  PrintRound(round, flags.common);
  return absl::OkStatus();
}

absl::Status Abort(const RoundFlags& flags) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto client, Connect(flags.common));
  SPARSEAGG_ASSIGN_OR_RETURN(const client::RoundInfo round, client->Abort(flags.round));
  PrintRound(round, flags.common);
  return absl::OkStatus();
}

absl::Status Delete(const RoundFlags& flags) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto client, Connect(flags.common));
  SPARSEAGG_RETURN_IF_ERROR(client->Delete(flags.round));
  if (flags.common.json) PrintJson({{"deleted", flags.round}});
  return absl::OkStatus();
}

absl::Status Verify(const RoundFlags& flags) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto client, Connect(flags.common));
  SPARSEAGG_ASSIGN_OR_RETURN(const client::Verification verified, client->Verify(flags.round));
  if (flags.common.json) {
    PrintJson(ToJson(verified));
  } else {
    Print(absl::StrCat("verified: ", verified.contributors, " updates (",
                       FormatBytes(verified.bytes_read), ") computed again with ", verified.backend,
                       " give the same bits, digest ",
                       absl::BytesToHexString(verified.result_digest), "\n"));
  }
  return absl::OkStatus();
}

// Prints one line for every change, until the round has ended.
absl::Status Watch(const RoundFlags& flags) {
  {
    // Fails soon if there is no server. Only a server that has answered is waited for.
    SPARSEAGG_ASSIGN_OR_RETURN(const auto once, Connect(flags.common));
    SPARSEAGG_RETURN_IF_ERROR(once->GetRound(flags.round).status());
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const auto client, ConnectToWait(flags.common, flags.round));
  bool aborted = false;
  std::string failure;
  SPARSEAGG_RETURN_IF_ERROR(client->Watch(flags.round, [&](const client::RoundInfo& round) {
    if (flags.common.json) {
      PrintJsonLine(ToJson(round));
    } else {
      Print(absl::StrCat(round.name, " ", std::string(client::RoundStateName(round.state)),
                         " contributors=", ProgressText(round),
                         " received=", FormatBytes(round.bytes_received), "\n"));
    }
    aborted = round.state == client::RoundState::kAborted;
    failure = round.failure;
    return true;
  }));
  if (!aborted) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kAborted, "ROUND_ABORTED",
      absl::StrCat(flags.round, " was aborted: ", failure.empty() ? "by request" : failure));
}

void AddCreate(CLI::App& round, const CliContext& context) {
  auto flags = std::make_shared<CreateFlags>();
  CLI::App& command = *round.add_subcommand("create", "Open a round, and print its name");
  command.add_option("--id", flags->id,
                     "Id, the last part of the name (empty: chosen by the server)");
  AddRepeated(
      command, "--tensor", flags->tensors,
      "A tensor: NAME:TYPE:SHAPE[:sparse_dim=N][:op=OP][:overflow=modular]"
      "[:plan=PLAN], for example emb:f32:1000x64:sparse_dim=1:op=weighted_mean (may be repeated)");
  CLI::Option* like = AddRepeated(command, "--like", flags->like,
                                  "Use the tensors of a file: [NAME=]FILE (may be repeated)");
  // They need --like: with --tensor alone they would have no effect, and the user means :op=OP.
  command.add_option("--op", flags->op, "Operator for the tensors of --like")
      ->capture_default_str()
      ->needs(like);
  command.add_option("--dtype", flags->dtype, "Value type for the tensors of --like")
      ->check(IsValueType())
      ->needs(like);
  command
      .add_option(
          "--overflow", flags->overflow,
          "Integer sums beyond the range, for --like: checked (an error) or modular (wrap around)")
      ->check(IsOverflow())
      ->needs(like);
  command
      .add_option("--durability", flags->durability,
                  "memory (lost when the server ends) or durable (default: the server's)")
      ->check(CLI::IsMember({"memory", "durable"}));
  AddPolicyFlags(command, flags->policy);
  command.add_flag("--keep-updates", flags->keep_updates,
                   "Keep the updates until the round is deleted, for `round verify`");
  command.add_flag("--publish-partial", flags->publish_partial,
                   "The result is the partial aggregate, for `partial get`");
  command.add_flag("--owners", flags->owners,
                   "The leaves keep the result, each a range of its rows");
  command.add_option(
      "--request-id", flags->request_id,
      "Id of this request: repeating it with the same content returns the same round");
  AddCommonFlags(command, flags->common);
  SetBody(command, context, flags->common, [flags] { return Create(*flags); });
}

}  // namespace

void AddRoundCommands(CLI::App& app, const CliContext& context) {
  CLI::App& round = *app.add_subcommand("round", "Open, inspect and end rounds");
  round.require_subcommand(1);
  AddCreate(round, context);

  auto list_flags = std::make_shared<CommonFlags>();
  CLI::App& list = *round.add_subcommand("list", "List the rounds of the server");
  AddCommonFlags(list, *list_flags);
  SetBody(list, context, *list_flags, [list_flags] { return List(*list_flags); });

  struct Row {
    const char* name;
    const char* description;
    absl::Status (*body)(const RoundFlags&);
  };
  constexpr Row kRows[] = {
      {"show", "Show a round", &Show},
      {"seal", "Fix the accepted updates and compute the result", &Seal},
      {"abort", "End a round without a result, and erase its data", &Abort},
      {"delete", "Erase a published or aborted round", &Delete},
      {"watch", "Print every change of a round until it ends", &Watch},
      {"verify", "Compute a published round again from its updates, and compare every bit",
       &Verify},
  };
  for (const Row& row : kRows) {
    auto flags = std::make_shared<RoundFlags>();
    CLI::App& command = AddRoundCommand(round, row.name, row.description, *flags);
    if (row.body == &Show) command.alias("get");
    if (row.body == &Seal) AddWaitFlags(command, flags->wait);
    SetBody(command, context, flags->common, [flags, body = row.body] { return body(*flags); });
  }
}

}  // namespace sparseagg::cli

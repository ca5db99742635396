// partial get | submit | show
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "client/cli/command.h"
#include "client/cli/commands/command_list.h"
#include "client/cli/output.h"
#include "client/cli/partial_head.h"
#include "client/cli/progress_bar.h"
#include "client/cli/tensor_spec.h"
#include "client/io/output_file.h"

namespace sparseagg::cli {
namespace {

struct PartialFlags {
  CommonFlags common;
  std::string round;
  std::string file;
  std::string node;
  std::string update_id;
  bool contributors = false;
  WaitFlags wait;
};

absl::StatusOr<std::string> ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad() || !file.is_open()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "FILE_UNUSABLE",
                     absl::StrCat("cannot read ", path));
  }
  return bytes;
}

absl::Status Get(const PartialFlags& flags) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto client, Connect(flags.common));
  if (flags.wait.wait) {
    SPARSEAGG_RETURN_IF_ERROR(WaitFor(flags.round, flags.wait, flags.common).status());
  }
  client::PartialBytes partial;
  {
    ProgressBar bar(absl::StrCat("partial get ", flags.round));
    SPARSEAGG_ASSIGN_OR_RETURN(partial, client->GetPartial(flags.round, bar.progress()));
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const auto file, client::OutputFile::Create(flags.file));
  SPARSEAGG_RETURN_IF_ERROR(file->Write(partial.bytes));
  SPARSEAGG_RETURN_IF_ERROR(file->Commit());
  const std::string digest = absl::BytesToHexString(partial.digest);
  if (flags.common.json) {
    PrintJson({{"round", flags.round},
               {"output", flags.file},
               {"bytes", partial.bytes.size()},
               {"digest", digest}});
  } else {
    Print(absl::StrCat(flags.file, ": ", FormatBytes(partial.bytes.size()), ", digest ", digest,
                       "\n"));
  }
  return absl::OkStatus();
}

absl::Status Submit(const PartialFlags& flags) {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(flags.file));
  SPARSEAGG_ASSIGN_OR_RETURN(const PartialHead head, ReadPartialHead(bytes));
  SPARSEAGG_ASSIGN_OR_RETURN(const auto client, Connect(flags.common));
  client::Receipt receipt;
  {
    ProgressBar bar(absl::StrCat("partial submit ", flags.file));
    SPARSEAGG_ASSIGN_OR_RETURN(receipt, client->SubmitPartial(flags.round, flags.node, bytes,
                                                              flags.update_id, bar.progress()));
  }
  if (flags.common.json) {
    PrintJson(ToJson(receipt));
  } else {
    Print(absl::StrCat(flags.node, ": ", head.contributors, " contributors counted",
                       receipt.duplicate ? " before" : "", "\n"));
  }
  return absl::OkStatus();
}

nlohmann::json ToJson(const PartialHead& head, bool contributors) {
  nlohmann::json object = {{"version", head.version},
                           {"contributors", head.contributors},
                           {"named", head.named},
                           {"digest", absl::BytesToHexString(head.digest)},
                           {"tensors", nlohmann::json::array()}};
  for (const PartialHead::Tensor& tensor : head.tensors) {
    object["tensors"].push_back({{"name", tensor.name},
                                 {"op", tensor.op},
                                 {"value_type", tensor.value_type},
                                 {"dense_shape", tensor.dense_shape},
                                 {"sparse_dim", tensor.sparse_dim},
                                 {"entries", tensor.entries},
                                 {"slices", tensor.slices}});
  }
  if (contributors) object["covered"] = head.covered;
  return object;
}

absl::Status Show(const PartialFlags& flags) {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(flags.file));
  SPARSEAGG_ASSIGN_OR_RETURN(const PartialHead head, ReadPartialHead(bytes));
  if (flags.common.json) {
    PrintJson(ToJson(head, flags.contributors));
    return absl::OkStatus();
  }
  std::string text =
      absl::StrCat(flags.file, ": ", FormatBytes(bytes.size()), ", ", head.contributors,
                   head.named ? " contributors, digest " : " updates without names, digest ",
                   absl::BytesToHexString(head.digest), "\n");
  for (const PartialHead::Tensor& tensor : head.tensors) {
    absl::StrAppend(&text, "  ", tensor.name, " ", tensor.value_type, " ",
                    absl::StrJoin(tensor.dense_shape, "x"), " ", tensor.op,
                    " entries=", tensor.entries, " slices=", tensor.slices, "\n");
  }
  for (const std::string& name : head.covered) {
    if (flags.contributors) absl::StrAppend(&text, "  ", name, "\n");
  }
  Print(text);
  return absl::OkStatus();
}

}  // namespace

void AddPartialCommands(CLI::App& app, const CliContext& context) {
  CLI::App& partial = *app.add_subcommand(
      "partial",
      "Partial aggregates: what a server has of a round, for another (docs/partials.md)");
  partial.require_subcommand(1);

  auto get_flags = std::make_shared<PartialFlags>();
  CLI::App& get = *partial.add_subcommand("get", "Fetch that of a published round into a file");
  get.add_option("round", get_flags->round, "Name of the round")->required();
  get.add_option("-o,--output", get_flags->file, "File to write")->required();
  AddWaitFlags(get, get_flags->wait);
  AddCommonFlags(get, get_flags->common);
  SetBody(get, context, get_flags->common, [get_flags] { return Get(*get_flags); });

  auto submit_flags = std::make_shared<PartialFlags>();
  CLI::App& submit = *partial.add_subcommand("submit", "Merge one into a round");
  submit.add_option("round", submit_flags->round, "Name of the round")->required();
  submit.add_option("file", submit_flags->file, "File that `partial get` wrote")->required();
  submit.add_option("--node", submit_flags->node, "Who sends it; each is counted once")->required();
  submit.add_option("--update-id", submit_flags->update_id,
                    "Id of this update (default: made of the content)");
  AddCommonFlags(submit, submit_flags->common);
  SetBody(submit, context, submit_flags->common, [submit_flags] { return Submit(*submit_flags); });

  auto show_flags = std::make_shared<PartialFlags>();
  CLI::App& show = *partial.add_subcommand("show", "Print what a file has");
  show.add_option("file", show_flags->file, "File that `partial get` wrote")->required();
  show.add_flag("--contributors", show_flags->contributors, "List the contributors, too");
  AddJsonFlag(show, show_flags->common);
  SetBody(show, context, show_flags->common, [show_flags] { return Show(*show_flags); });
}

}  // namespace sparseagg::cli

// pull: the result of a published round, into a file.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/cli/command.h"
#include "client/cli/commands/command_list.h"
#include "client/cli/output.h"
#include "client/cli/progress_bar.h"
#include "client/cli/tensor_files.h"
#include "client/cli/tensor_spec.h"
#include "client/io/tensor_file.h"

namespace sparseagg::cli {
namespace {

struct PullFlags {
  CommonFlags common;
  std::string round;
  std::string output;
  std::string encoding = "auto";
  bool dense = false;
  WaitFlags wait;
  std::vector<std::string> tensors;
  std::vector<std::string> indices;
};

// The specs of the requested tensors, in the order of the request.
absl::StatusOr<std::vector<TensorSpec>> PulledSpecs(const PullFlags& flags,
                                                    const client::RoundInfo& round) {
  if (flags.tensors.empty()) return round.tensors;
  std::vector<TensorSpec> specs;
  for (const std::string& name : flags.tensors) {
    const auto spec = std::find_if(round.tensors.begin(), round.tensors.end(),
                                   [&](const TensorSpec& tensor) { return tensor.name == name; });
    if (spec == round.tensors.end()) {
      return MakeError(absl::StatusCode::kInvalidArgument, "UNKNOWN_TENSOR",
                       absl::StrCat(round.name, " has no tensor \"", name,
                                    "\"; `sparseagg round show` lists them"));
    }
    specs.push_back(*spec);
  }
  return specs;
}

absl::StatusOr<std::vector<client::Selection>> ReadSelections(
    const PullFlags& flags, const std::vector<TensorSpec>& specs) {
  std::vector<client::Selection> selections;
  for (const std::string& text : flags.indices) {
    const FileArgument argument = ParseFileArgument(text);
    const auto spec = std::find_if(specs.begin(), specs.end(), [&](const TensorSpec& tensor) {
      return argument.tensor.empty() ? specs.size() == 1 : tensor.name == argument.tensor;
    });
    if (spec == specs.end()) {
      return BadArgument(
          absl::StrCat("--indices ", text, ": give the name of the tensor, as NAME=FILE"));
    }
    SPARSEAGG_ASSIGN_OR_RETURN(client::Selection selection, ReadSelection(argument.path, *spec));
    selections.push_back(std::move(selection));
  }
  return selections;
}

absl::Status Pull(const PullFlags& flags) {
  if (const absl::Status path = client::CheckOutputPath(flags.output); !path.ok()) {
    return BadArgument(std::string(path.message()));
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const auto client, Connect(flags.common));
  SPARSEAGG_ASSIGN_OR_RETURN(client::RoundInfo round, client->GetRound(flags.round));
  client::PullOptions options;
  options.tensors = flags.tensors;
  options.dense = flags.dense;
  options.encoding = flags.encoding;
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<TensorSpec> specs, PulledSpecs(flags, round));
  SPARSEAGG_ASSIGN_OR_RETURN(options.selections, ReadSelections(flags, specs));
  if (flags.wait.wait) {
    SPARSEAGG_ASSIGN_OR_RETURN(round, WaitFor(round.name, flags.wait, flags.common));
  }
  client::Result result;
  {
    ProgressBar bar(absl::StrCat("pull ", round.name));
    options.progress = bar.progress();
    SPARSEAGG_ASSIGN_OR_RETURN(result, client->Pull(round.name, options));
  }
  const std::vector<client::TensorView> tensors = client::ViewsOf(result.tensors);
  SPARSEAGG_RETURN_IF_ERROR(client::WriteTensors(flags.output, tensors));
  if (flags.common.json) {
    PrintJson({{"round", round.name},
               {"output", flags.output},
               {"tensors", ToJson(tensors)},
               {"manifest", ToJson(result.manifest)}});
    return absl::OkStatus();
  }
  std::string text = absl::StrCat(flags.output, ": ", round.name, ", ",
                                  result.manifest.contributors, " contributors\n");
  for (const client::TensorView& tensor : tensors) {
    absl::StrAppend(&text, "  ", ToText(tensor), "\n");
  }
  Print(text);
  return absl::OkStatus();
}

}  // namespace

void AddPullCommand(CLI::App& app, const CliContext& context) {
  auto flags = std::make_shared<PullFlags>();
  CLI::App& command = *app.add_subcommand("pull", "Fetch the result of a published round");
  command.add_option("round", flags->round, "Name of the round")->required();
  command.add_option("-o,--output", flags->output, "File to write: .npz, or .mtx for one matrix")
      ->required();
  command.add_flag("--dense", flags->dense,
                   "Write all values, with 0 for absent ones, instead of the entries");
  AddRepeated(command, "--tensor", flags->tensors, "Fetch only this tensor (may be repeated)");
  AddRepeated(
      command, "--indices", flags->indices,
      "Fetch only these indices: [NAME=]FILE, a .npy array or text with one index per line");
  AddWaitFlags(command, flags->wait);
  command.add_option("--encoding", flags->encoding, "Encoding of indices; auto chooses by size")
      ->check(IsEncoding())
      ->capture_default_str();
  AddCommonFlags(command, flags->common);
  SetBody(command, context, flags->common, [flags] { return Pull(*flags); });
}

}  // namespace sparseagg::cli

// push: one contributor's update, from files.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

struct PushFlags {
  CommonFlags common;
  std::string round;
  std::vector<std::string> files;
  std::string contributor;
  std::string update_id;
  std::string dtype;
  std::string encoding = "auto";
  std::string values = "auto";
  std::string weight = "1";
};

// A .mtx file has no value type, so its matrix gets the type of its tensor in the round.
std::optional<ValueType> TypeFor(const std::string& file, const std::vector<TensorSpec>& specs) {
  const FileArgument argument = ParseFileArgument(file);
  if (!client::IsMatrixMarketPath(argument.path)) return std::nullopt;
  for (const TensorSpec& spec : specs) {
    if (spec.name == argument.tensor || specs.size() == 1) return spec.value_type;
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<client::Tensor>> ReadUpdate(const PushFlags& flags,
                                                       const std::vector<TensorSpec>& specs) {
  std::vector<client::Tensor> read;
  for (const std::string& file : flags.files) {
    SPARSEAGG_ASSIGN_OR_RETURN(std::optional<ValueType> dtype, ParseOptionalType(flags.dtype));
    if (!dtype.has_value()) dtype = TypeFor(file, specs);
    SPARSEAGG_ASSIGN_OR_RETURN(std::vector<client::Tensor> tensors, ReadFileArgument(file, dtype));
    for (client::Tensor& tensor : tensors) read.push_back(std::move(tensor));
  }
  return MatchTensors(specs, std::move(read), absl::StrJoin(flags.files, " "));
}

absl::Status Push(const PushFlags& flags) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto client, Connect(flags.common));
  SPARSEAGG_ASSIGN_OR_RETURN(const client::RoundInfo round, client->GetRound(flags.round));
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<client::Tensor> tensors,
                             ReadUpdate(flags, round.tensors));
  client::Update update;
  update.contributor = flags.contributor;
  update.update_id = flags.update_id;
  SPARSEAGG_ASSIGN_OR_RETURN(update.weight, ParseWeight(flags.weight, round.tensors));
  update.encoding = flags.encoding;
  update.values = flags.values;
  update.tensors = client::ViewsOf(tensors);

  ProgressBar bar(absl::StrCat("push ", round.name));
  SPARSEAGG_ASSIGN_OR_RETURN(const client::Receipt receipt,
                             client->Submit(round.name, update, bar.progress()));
  if (flags.common.json) {
    PrintJson({{"receipt", ToJson(receipt)}, {"tensors", ToJson(update.tensors)}});
    return absl::OkStatus();
  }
  std::string text = absl::StrCat(receipt.round, " ", receipt.contributor, " ", receipt.update_id,
                                  " ", receipt.duplicate ? "was counted before" : "counted",
                                  " as number ", receipt.sequence, "\n");
  for (size_t i = 0; i < update.tensors.size(); ++i) {
    const client::TensorEncoding& sent = receipt.encodings[i];
    absl::StrAppend(&text, "  ", ToText(update.tensors[i]), ", ", sent.encoding, " with ",
                    sent.values, " values, ", sent.bytes, " bytes\n");
  }
  Print(text);
  return absl::OkStatus();
}

}  // namespace

void AddPushCommand(CLI::App& app, const CliContext& context) {
  auto flags = std::make_shared<PushFlags>();
  CLI::App& command = *app.add_subcommand(
      "push", "Send one contributor's update; tensors of the round without a file are sent empty");
  command.add_option("round", flags->round, "Name of the round")->required();
  command
      .add_option("files", flags->files,
                  "[NAME=]FILE, .npz or .mtx; NAME is the tensor if the file has no name")
      ->required();
  command
      .add_option("--contributor", flags->contributor,
                  "Id of the contributor; one update of each is counted")
      ->required();
  command.add_option("--update-id", flags->update_id,
                     "Id of the update, the same in retries (default: a digest of its content)");
  command.add_option("--weight", flags->weight, "Weight of the update, a number")
      ->check(IsWeight)
      ->capture_default_str();
  command
      .add_option("--dtype", flags->dtype,
                  "Convert the values to this type (default for .mtx: the type of the round)")
      ->check(IsValueType());
  command.add_option("--encoding", flags->encoding, "Encoding of tensors; auto chooses by size")
      ->check(IsEncoding())
      ->capture_default_str();
  command
      .add_option("--values", flags->values,
                  "Encoding of values: raw, f32, bf16, f16, int8, int8.stochastic, int4, "
                  "int4.stochastic, or auto (the smallest that is lossless)")
      ->check(IsValuesEncoding())
      ->capture_default_str();
  AddCommonFlags(command, flags->common);
  SetBody(command, context, flags->common, [flags] { return Push(*flags); });
}

}  // namespace sparseagg::cli

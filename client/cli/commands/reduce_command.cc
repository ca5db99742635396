// reduce: the stateless operator over files, on a server or in this process.
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "client/cli/command.h"
#include "client/cli/commands/command_list.h"
#include "client/cli/local_reduce.h"
#include "client/cli/output.h"
#include "client/cli/progress_bar.h"
#include "client/cli/tensor_files.h"
#include "client/cli/tensor_spec.h"
#include "client/io/tensor_file.h"
#include "sparse/ops/all.h"
#include "sparse/validate.h"

namespace sparseagg::cli {
namespace {

struct ReduceFlags {
  CommonFlags common;
  std::vector<std::string> files;
  std::string output;
  std::string op = "sum";
  std::string weights;
  std::string dtype;
  std::string overflow = "checked";
  std::string plan;
  std::string backend;
  bool local = false;
};

absl::StatusOr<std::vector<float>> ParseWeights(const ReduceFlags& flags,
                                                const std::vector<TensorSpec>& specs) {
  std::vector<float> weights(flags.files.size(), 1.0f);
  if (flags.weights.empty()) return weights;
  const std::vector<std::string> parts = absl::StrSplit(flags.weights, ',');
  if (parts.size() != weights.size()) {
    return BadArgument(
        absl::StrCat("--weights has ", parts.size(), " numbers for ", weights.size(), " files"));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    SPARSEAGG_ASSIGN_OR_RETURN(weights[i], ParseWeight(parts[i], specs));
  }
  return weights;
}

// Reads the updates, one per file, one file at a time.
class Updates {
 public:
  static absl::StatusOr<std::unique_ptr<Updates>> Open(const ReduceFlags& flags) {
    auto updates = std::make_unique<Updates>();
    updates->files_ = flags.files;
    SPARSEAGG_ASSIGN_OR_RETURN(updates->dtype_, ParseOptionalType(flags.dtype));
    SPARSEAGG_ASSIGN_OR_RETURN(updates->specs_, updates->ReadSpecs(flags));
    SPARSEAGG_ASSIGN_OR_RETURN(updates->weights_, ParseWeights(flags, updates->specs_));
    return updates;
  }

  // The specs of the first file's tensors.
  const std::vector<TensorSpec>& specs() const { return specs_; }

  absl::StatusOr<client::Update> Read(uint64_t i) {
    SPARSEAGG_ASSIGN_OR_RETURN(std::vector<client::Tensor> read,
                               ReadFileArgument(files_[i], dtype_));
    SPARSEAGG_ASSIGN_OR_RETURN(tensors_, MatchTensors(specs_, std::move(read), files_[i]));
    client::Update update;
    update.update_id = absl::StrCat(kIdPrefix, i);
    update.weight = weights_[i];
    update.tensors = client::ViewsOf(tensors_);
    return update;
  }

  // Replaces the update id in an error by the name of its file.
  absl::Status NameFile(const absl::Status& error) const {
    if (error.ok()) return error;
    const std::string id = ErrorMetadata(error)[std::string(kUpdateIdKey)];
    uint64_t i = 0;
    if (!absl::StartsWith(id, kIdPrefix) ||
        !absl::SimpleAtoi(id.substr(sizeof(kIdPrefix) - 1), &i) || i >= files_.size()) {
      return error;
    }
    const std::string message(error.message());
    const std::string named = absl::StrCat("update \"", id, "\": ");
    return WithMessage(
        error, absl::StrCat(files_[i], ": ", std::string(absl::StripPrefix(message, named))));
  }

 private:
  static constexpr char kIdPrefix[] = "file-";

  absl::StatusOr<std::vector<TensorSpec>> ReadSpecs(const ReduceFlags& flags) {
    SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<client::Tensor> first,
                               ReadFileArgument(files_[0], dtype_));
    SPARSEAGG_ASSIGN_OR_RETURN(const IntegerOverflow overflow,
                               ParseOverflowArgument(flags.overflow));
    if (first.empty()) {  // the server's error
      return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_SPEC",
                       absl::StrCat(flags.files[0], ": has no tensor"));
    }
    std::vector<TensorSpec> specs;
    for (const client::Tensor& tensor : first) {
      specs.push_back(client::SpecOf(tensor));
      if (specs.back().name.empty()) specs.back().name = kUnnamedTensor;
      specs.back().op = flags.op;
      specs.back().integer_overflow = overflow;
      specs.back().plan = flags.plan;
    }
    return specs;
  }

  std::vector<std::string> files_;
  std::vector<float> weights_;
  std::optional<ValueType> dtype_;
  std::vector<TensorSpec> specs_;
  std::vector<client::Tensor> tensors_;  // of the last update read
};

absl::StatusOr<client::Result> ReduceOnServer(const ReduceFlags& flags,
                                              client::ReduceRequest request) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto client, Connect(flags.common));
  ProgressBar bar("pull the result");
  request.progress = bar.progress();
  return client->Reduce(request);
}

// An upper bound for the bytes of the tensors of all files.
absl::StatusOr<uint64_t> InputBytesMax(const std::vector<std::string>& files) {
  uint64_t sum = 0;
  for (const std::string& file : files) {
    SPARSEAGG_ASSIGN_OR_RETURN(const uint64_t bytes,
                               client::TensorBytesMax(ParseFileArgument(file).path));
    if (bytes > std::numeric_limits<uint64_t>::max() - sum) {
      return std::numeric_limits<uint64_t>::max();
    }
    sum += bytes;
  }
  return sum;
}

nlohmann::json Report(const ReduceFlags& flags, const std::string& where) {
  return {{"output", flags.output},
          {"local", flags.local},
          {flags.local ? "backend" : "server", where},
          {"op", flags.op},
          {"updates", flags.files.size()}};
}

absl::Status Reduce(const ReduceFlags& flags, std::span<const BackendFactory> backends) {
  if (const absl::Status path = client::CheckOutputPath(flags.output); !path.ok()) {
    return BadArgument(std::string(path.message()));
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const std::unique_ptr<Updates> updates, Updates::Open(flags));
  client::ReduceRequest request;
  request.tensors = updates->specs();
  request.num_updates = flags.files.size();
  auto bar = std::make_unique<ProgressBar>("reduce files");
  request.update = [&](uint64_t i) {
    bar->Step(i, flags.files.size());
    return updates->Read(i);
  };

  LocalReduction local;
  client::Result answer;
  std::vector<client::TensorView> tensors;  // of whichever was used
  std::string where = flags.common.server;
  if (flags.local) {
    SPARSEAGG_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend,
                               OpenBackend(backends, flags.backend));
    where = backend->info().name;
    SPARSEAGG_ASSIGN_OR_RETURN(const uint64_t bytes_max, InputBytesMax(flags.files));
    auto reduced = ReduceLocally(request, bytes_max, *backend);
    SPARSEAGG_RETURN_IF_ERROR(updates->NameFile(reduced.status()));
    local = *std::move(reduced);
    tensors = local.tensors;
  } else {
    auto reduced = ReduceOnServer(flags, std::move(request));
    SPARSEAGG_RETURN_IF_ERROR(updates->NameFile(reduced.status()));
    answer = *std::move(reduced);
    tensors = client::ViewsOf(answer.tensors);
  }
  bar.reset();
  SPARSEAGG_RETURN_IF_ERROR(client::WriteTensors(flags.output, tensors));
  if (flags.common.json) {
    nlohmann::json object = Report(flags, where);
    object["tensors"] = ToJson(tensors);
    if (flags.local) object["status"] = ToJson(local.status);
    PrintJson(object);
    return absl::OkStatus();
  }
  std::string text = absl::StrCat(flags.output, ": ", flags.op, " of ", flags.files.size(),
                                  " updates on ", where, "\n");
  for (const client::TensorView& tensor : tensors) {
    absl::StrAppend(&text, "  ", ToText(tensor), "\n");
  }
  for (const client::TensorStatus& status : local.status) {
    absl::StrAppend(&text, "  plan ", ToText(status), "\n");
  }
  Print(text);
  return absl::OkStatus();
}

}  // namespace

void AddReduceCommand(CLI::App& app, const CliContext& context) {
  auto flags = std::make_shared<ReduceFlags>();
  CLI::App& command = *app.add_subcommand(
      "reduce", "Aggregate files without a round; each file is one contributor's update");
  command.add_option("files", flags->files, "[NAME=]FILE, .npz or .mtx")->required();
  command.add_option("-o,--output", flags->output, "File to write: .npz, or .mtx for one matrix")
      ->required();
  const std::vector<std::string> names(AllOps::kNames.begin(), AllOps::kNames.end());
  command.add_option("--op", flags->op, absl::StrJoin(names, ", "))->capture_default_str();
  command.add_option("--weights", flags->weights, "One weight for each file: 1,2.5,1 (default: 1)");
  command.add_option("--dtype", flags->dtype, "Convert the values to this type first")
      ->check(IsValueType());
  command
      .add_option("--overflow", flags->overflow,
                  "Integer sums beyond the range: checked (an error) or modular (wrap around)")
      ->check(IsOverflow())
      ->capture_default_str();
  command.add_option("--plan", flags->plan,
                     "Use this plan (algorithm); it changes no bit of the result");
  CLI::Option* local =
      command.add_flag("--local", flags->local, "Compute in this process, without a server");
  command.add_option("--backend", flags->backend, "Back end for --local")->needs(local);
  const auto of_server = AddCommonFlags(command, flags->common);
  SetBody(command, context, flags->common,
          [flags, of_server, &command, backends = context.backends]() -> absl::Status {
            if (flags->local) {
              SPARSEAGG_RETURN_IF_ERROR(CheckExcluded(command, of_server, "--local"));
            }
            return Reduce(*flags, backends);
          });
}

}  // namespace sparseagg::cli

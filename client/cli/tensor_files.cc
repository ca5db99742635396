#include "client/cli/tensor_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <span>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "client/cli/tensor_spec.h"
#include "client/io/file_error.h"
#include "client/io/line_reader.h"
#include "client/io/npy.h"
#include "client/io/tensor_file.h"

namespace sparseagg::cli {
namespace {

using client::MalformedFile;
using client::Tensor;

absl::Status Mismatch(const char* reason, const std::string& source, const TensorSpec& spec,
                      const std::string& has, const std::string& wants) {
  return MakeError(
      absl::StatusCode::kInvalidArgument, reason,
      absl::StrCat(source, ": tensor \"", spec.name, "\" ", has, ", wanted is ", wants));
}

absl::Status CheckAgainst(const TensorSpec& spec, const Tensor& tensor, const std::string& source) {
  if (tensor.dense_shape != spec.dense_shape || tensor.sparse_dim != spec.sparse_dim) {
    const auto text = [](const std::vector<int64_t>& shape, uint32_t sparse_dim) {
      return absl::StrCat(FormatShape(shape), " with sparse_dim ", sparse_dim);
    };
    return Mismatch("SHAPE_MISMATCH", source, spec,
                    "is " + text(tensor.dense_shape, tensor.sparse_dim),
                    text(spec.dense_shape, spec.sparse_dim));
  }
  if (tensor.layout.value_type != spec.value_type) {
    const std::string wanted(ValueTypeName(spec.value_type));
    return Mismatch(
        "TYPE_MISMATCH", source, spec,
        absl::StrCat("has ", std::string(ValueTypeName(tensor.layout.value_type)), " values"),
        absl::StrCat(wanted, "; give --dtype ", wanted));
  }
  return absl::OkStatus();
}

std::string KnownNames(const std::vector<TensorSpec>& specs) {
  return absl::StrJoin(specs, ", ", [](std::string* out, const TensorSpec& spec) {
    absl::StrAppend(out, "\"", spec.name, "\"");
  });
}

// Parses the numbers of one line; returns false if it has anything else.
bool ParseIndexLine(std::string_view line, std::vector<int64_t>& index) {
  constexpr std::string_view kSeparators = " \t,;";
  index.clear();
  for (size_t at = line.find_first_not_of(kSeparators); at != std::string_view::npos;
       at = line.find_first_not_of(kSeparators, at)) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(line.data() + at, line.data() + line.size(), number);
    if (error != std::errc()) return false;
    at = static_cast<size_t>(end - line.data());
    if (at < line.size() && kSeparators.find(line[at]) == std::string_view::npos) return false;
    index.push_back(number);
  }
  return true;
}

// Collects and flattens indices.
class SelectionBuilder {
 public:
  SelectionBuilder(const std::string& path, const TensorSpec& spec)
      : path_(path), indexed_shape_(std::span(spec.dense_shape).first(spec.sparse_dim)) {
    selection_.tensor = spec.name;
  }
  absl::Status Add(std::span<const int64_t> index, const std::string& where) {
    if (index.size() != indexed_shape_.size()) {
      return MalformedFile(
          path_, where,
          absl::StrCat("has ", index.size(), " numbers, the tensor \"", selection_.tensor, "\" ",
                       indexed_shape_.size(), " indexed dimensions"));
    }
    const absl::StatusOr<uint64_t> row = client::FlattenIndex(index, indexed_shape_);
    if (!row.ok()) return MalformedFile(path_, where, std::string(row.status().message()));
    selection_.rows.push_back(*row);
    return absl::OkStatus();
  }
  client::Selection Take() { return std::move(selection_); }

 private:
  const std::string& path_;
  std::span<const int64_t> indexed_shape_;
  client::Selection selection_;
};

absl::StatusOr<client::Selection> ReadTextSelection(const std::string& path,
                                                    const TensorSpec& spec) {
  SPARSEAGG_ASSIGN_OR_RETURN(client::LineReader reader, client::LineReader::Open(path));
  SelectionBuilder builder(path, spec);
  std::vector<int64_t> index;
  std::string_view line;
  for (;;) {
    SPARSEAGG_ASSIGN_OR_RETURN(const bool any, reader.Next(line));
    if (!any) return builder.Take();
    if (!ParseIndexLine(line, index)) {
      return MalformedFile(path, reader.where(),
                           absl::StrCat(client::Quoted(line), " is not an index"));
    }
    if (!index.empty()) SPARSEAGG_RETURN_IF_ERROR(builder.Add(index, reader.where()));
  }
}

absl::StatusOr<client::Selection> ReadNpySelection(const std::string& path,
                                                   const TensorSpec& spec) {
  SPARSEAGG_ASSIGN_OR_RETURN(std::string bytes, client::ReadWholeFile(path));
  SPARSEAGG_ASSIGN_OR_RETURN(const client::NpyArray array,
                             client::ParseNpy(std::move(bytes), path, ""));
  // NumPy makes an empty array f64.
  if (array.size() == 0) return client::Selection{spec.name, {}};
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers,
                             client::ToIntegers(array, path, ""));
  const size_t rank = array.shape.size();
  if (rank < 1 || rank > 2)
    return MalformedFile(path, "", "is not of shape [n] or [n, sparse_dim]");
  const size_t width = rank == 2 ? static_cast<size_t>(array.shape[1]) : 1;
  SelectionBuilder builder(path, spec);
  for (size_t i = 0; i < static_cast<size_t>(array.shape[0]); ++i) {
    SPARSEAGG_RETURN_IF_ERROR(
        builder.Add(std::span(numbers).subspan(i * width, width), absl::StrCat("entry ", i)));
  }
  return builder.Take();
}

}  // namespace

FileArgument ParseFileArgument(const std::string& text) {
  const size_t equals = text.find('=');
  std::error_code ignored;
  if (equals == std::string::npos || equals == 0 || std::filesystem::exists(text, ignored)) {
    return {"", text};
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

absl::StatusOr<std::vector<Tensor>> ReadFileArgument(const std::string& text,
                                                     std::optional<ValueType> dtype) {
  const FileArgument argument = ParseFileArgument(text);
  client::ReadOptions options;
  options.value_type = dtype;
  absl::StatusOr<std::vector<Tensor>> read = client::ReadTensors(argument.path, options);
  if (ErrorReason(read.status()) == "VALUE_NOT_REPRESENTABLE") {
    return BadArgument(absl::StrCat("--dtype ", std::string(ValueTypeName(*dtype)), ": ",
                                    std::string(read.status().message())));
  }
  SPARSEAGG_ASSIGN_OR_RETURN(std::vector<Tensor> tensors, std::move(read));
  if (!argument.tensor.empty()) {
    if (tensors.size() != 1) {
      return BadArgument(absl::StrCat(text, ": the file holds ", tensors.size(),
                                      " tensors; give it without NAME="));
    }
    tensors[0].name = argument.tensor;
  }
  return tensors;
}

absl::StatusOr<std::vector<Tensor>> MatchTensors(const std::vector<TensorSpec>& specs,
                                                 std::vector<Tensor> read,
                                                 const std::string& source) {
  std::map<std::string, Tensor> by_name;
  for (Tensor& tensor : read) {
    if (tensor.name.empty() && specs.size() == 1) tensor.name = specs[0].name;
    const auto spec = std::find_if(specs.begin(), specs.end(), [&](const TensorSpec& candidate) {
      return candidate.name == tensor.name;
    });
    if (spec == specs.end()) {
      return MakeError(absl::StatusCode::kInvalidArgument, "UNKNOWN_TENSOR",
                       tensor.name.empty()
                           ? absl::StrCat(source,
                                          ": the tensor has no name; give its name as "
                                          "NAME=FILE: ",
                                          KnownNames(specs))
                           : absl::StrCat(source, ": tensor \"", tensor.name, "\" is not one of ",
                                          KnownNames(specs)));
    }
    SPARSEAGG_RETURN_IF_ERROR(CheckAgainst(*spec, tensor, source));
    const std::string name = tensor.name;
    if (!by_name.emplace(name, std::move(tensor)).second) {
      return MakeError(absl::StatusCode::kInvalidArgument, "DUPLICATE_TENSOR",
                       absl::StrCat(source, ": tensor \"", name, "\" is given twice"));
    }
  }
  std::vector<Tensor> tensors;
  for (const TensorSpec& spec : specs) {
    const auto found = by_name.find(spec.name);
    SPARSEAGG_ASSIGN_OR_RETURN(
        Tensor tensor, found == by_name.end() ? client::MakeEmptyTensor(spec)
                                              : absl::StatusOr<Tensor>(std::move(found->second)));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::StatusOr<client::Selection> ReadSelection(const std::string& path, const TensorSpec& spec) {
  if (absl::EndsWithIgnoreCase(path, ".npy")) return ReadNpySelection(path, spec);
  return ReadTextSelection(path, spec);
}

}  // namespace sparseagg::cli

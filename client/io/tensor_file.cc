#include "client/io/tensor_file.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/io/file_error.h"
#include "client/io/matrix_market.h"
#include "client/io/npz.h"

namespace sparseagg::client {
namespace {

enum class Format { kMatrixMarket, kNpz };

absl::StatusOr<Format> FormatOf(const std::string& path) {
  if (std::string_view(path).ends_with(".mtx")) return Format::kMatrixMarket;
  if (std::string_view(path).ends_with(".npz")) return Format::kNpz;
  return MakeError(absl::StatusCode::kInvalidArgument, "UNKNOWN_FORMAT",
                   absl::StrCat(path, ": the name ends neither with .npz nor with .mtx"));
}

absl::Status CheckNames(const std::string& path, const std::vector<Tensor>& tensors) {
  std::set<std::string> names;
  for (const Tensor& tensor : tensors) {
    if (tensors.size() > 1 && (tensor.name.empty() || !names.insert(tensor.name).second)) {
      return MakeError(
          absl::StatusCode::kInvalidArgument, "BAD_TENSOR_NAME",
          absl::StrCat(path, ": tensor name \"", tensor.name, "\" is empty or appears twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> ReadTensors(const std::string& path,
                                                const ReadOptions& options) {
  SPARSEAGG_ASSIGN_OR_RETURN(const Format format, FormatOf(path));
  if (format == Format::kNpz) return ReadNpz(path, options);
  SPARSEAGG_ASSIGN_OR_RETURN(Tensor tensor, ReadMatrixMarket(path, options));
  std::vector<Tensor> tensors;
  tensors.push_back(std::move(tensor));
  return tensors;
}

absl::Status CheckOutputPath(const std::string& path) { return FormatOf(path).status(); }

absl::Status WriteTensors(const std::string& path, const std::vector<Tensor>& tensors) {
  SPARSEAGG_ASSIGN_OR_RETURN(const Format format, FormatOf(path));
  SPARSEAGG_RETURN_IF_ERROR(CheckNames(path, tensors));
  if (format == Format::kNpz) return WriteNpz(path, tensors);
  if (tensors.size() != 1) {
    return MakeError(absl::StatusCode::kInvalidArgument, "UNSUITABLE_FORMAT",
                     absl::StrCat(path, ": .mtx holds one matrix, there are ", tensors.size(),
                                  " tensors; use .npz"));
  }
  SPARSEAGG_RETURN_IF_ERROR(CheckMatrixMarket(path, tensors[0]));
  return WriteMatrixMarket(path, tensors[0]);
}

}  // namespace sparseagg::client

// Reads files given on the command line as [NAME=]PATH, and matches them with the tensors of a
// round.
#ifndef SPARSEAGG_CLIENT_CLI_TENSOR_FILES_H_
#define SPARSEAGG_CLIENT_CLI_TENSOR_FILES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/tensor.h"

namespace sparseagg::cli {

// The name of a tensor without a name in its file.
inline constexpr char kUnnamedTensor[] = "tensor";

struct FileArgument {
  std::string tensor;  // "": the name in the file
  std::string path;
};

// Splits "NAME=PATH". A text without "=", or that is as a whole the path of a file, has no name.
FileArgument ParseFileArgument(const std::string& text);

// Reads the tensors of a file. A name in the argument names its only tensor; a tensor without a
// name keeps "". BAD_ARGUMENT if a name is given for a file with several tensors, or if the values
// cannot be converted to `dtype`.
absl::StatusOr<std::vector<client::Tensor>> ReadFileArgument(const std::string& text,
                                                             std::optional<ValueType> dtype);

// Returns the tensors of an update in the order of `specs`: one for each, empty if none of `read`
// has its name. A tensor without a name matches if `specs` has one tensor. Also checks type and
// shape, so that the error names the file `source`. INVALID_ARGUMENT: UNKNOWN_TENSOR,
// DUPLICATE_TENSOR, TYPE_MISMATCH, SHAPE_MISMATCH.
absl::StatusOr<std::vector<client::Tensor>> MatchTensors(const std::vector<TensorSpec>& specs,
                                                         std::vector<client::Tensor> read,
                                                         const std::string& source);

// Reads the indices of a selection: a .npy array [n] or [n, sparse_dim], or text with one index per
// line, whose numbers are separated by blanks or commas.
absl::StatusOr<client::Selection> ReadSelection(const std::string& path, const TensorSpec& spec);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_TENSOR_FILES_H_

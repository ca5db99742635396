// Files given on the command line: [NAME=]PATH, read and matched with the tensors of a round.
#ifndef SPARSEAGG_CLIENT_CLI_TENSOR_FILES_H_
#define SPARSEAGG_CLIENT_CLI_TENSOR_FILES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/tensor.h"

namespace sparseagg::cli {

// The name of a tensor that a file does not name.
inline constexpr char kUnnamedTensor[] = "tensor";

struct FileArgument {
  std::string tensor;  // "": as in the file
  std::string path;
};

// Splits "NAME=PATH"; a text without "=", or that is the path of a file as a whole, has no name.
FileArgument ParseFileArgument(const std::string& text);

// Reads the tensors of a file, its only one named as the argument says. BAD_ARGUMENT when a name is
// given for a file of several, or `dtype` is a type that its values do not have. A tensor without
// any name keeps "".
absl::StatusOr<std::vector<client::Tensor>> ReadFileArgument(const std::string& text,
                                                             std::optional<ValueType> dtype);

// Tensors of an update in the order of `specs`: each once, empty where none of `read` has its name;
// a tensor without a name is the only one of `specs`. Checks type and shape, too, to name the file.
// INVALID_ARGUMENT: UNKNOWN_TENSOR, DUPLICATE_TENSOR, TYPE_MISMATCH, SHAPE_MISMATCH.
absl::StatusOr<std::vector<client::Tensor>> MatchTensors(const std::vector<TensorSpec>& specs,
                                                         std::vector<client::Tensor> read,
                                                         const std::string& source);

// Indices of a selection: a .npy array [n] or [n, sparse_dim], or text with one index a line, its
// numbers separated by blanks or commas.
absl::StatusOr<client::Selection> ReadSelection(const std::string& path, const TensorSpec& spec);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_TENSOR_FILES_H_

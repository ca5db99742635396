// Reading and writing tensors as files: Matrix Market (.mtx, and .mtx.gz to read) and NumPy
// archives
// (.npz). The format follows from the end of the path, in capitals, too. docs/cli.md describes the
// layouts inside .npz.
//
// Files come from anywhere: every length is checked against the size of the file or a limit before
// memory is taken for it. Errors name the file and the line or member: INVALID_ARGUMENT
// (MALFORMED_FILE), RESOURCE_EXHAUSTED (FILE_TOO_LARGE), FAILED_PRECONDITION (FILE_UNUSABLE).
#ifndef SPARSEAGG_CLIENT_IO_TENSOR_FILE_H_
#define SPARSEAGG_CLIENT_IO_TENSOR_FILE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/tensor.h"

namespace sparseagg::client {

struct ReadOptions {
  // Converts the values; unset keeps the file's type (.mtx: real is f64, integer and pattern i64,
  // unsigned-integer u64).
  std::optional<ValueType> value_type;
  // Most bytes that the tensors of one file may take in memory, and that a .gz may unpack to.
  uint64_t bytes_max = uint64_t{16} << 30;
};

// The tensors of a file, in its order. A file that holds one tensor without a name gives the name
// "". Indices of sparse tensors are checked against the shape.
absl::StatusOr<std::vector<Tensor>> ReadTensors(const std::string& path,
                                                const ReadOptions& options = {});

// The most bytes that the tensors of a file can take in memory, whatever value type they are
// converted to; from the sizes of the file and its members, without reading them (a .gz is unpacked
// to know its size). FILE_UNUSABLE, MALFORMED_FILE, FILE_TOO_LARGE.
absl::StatusOr<uint64_t> TensorBytesMax(const std::string& path);

// Writes the file beside `path` first and then renames it, so that no reader sees half of it. The
// same tensors give the same bytes. One tensor is written without its name; .mtx holds exactly one,
// of two dimensions.
absl::Status WriteTensors(const std::string& path, std::span<const TensorView> tensors);

// Whether WriteTensors() knows the end of `path`; to refuse a bad name before the work is done.
absl::Status CheckOutputPath(const std::string& path);

// Whether the end of `path` says Matrix Market, whose values have no type of their own.
bool IsMatrixMarketPath(const std::string& path);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_IO_TENSOR_FILE_H_

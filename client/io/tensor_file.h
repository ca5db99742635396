// Reads and writes tensors as files: Matrix Market (.mtx, and .mtx.gz for reading) and NumPy
// archives (.npz). The suffix of the path, in any case, decides the format. docs/cli.md describes
// the layouts inside .npz.
//
// Files are untrusted: every length is checked against the size of the file or a limit before
// memory is allocated for it. Errors name the file and the line or member: INVALID_ARGUMENT
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
  // The most bytes that the tensors of one file may take in memory, and that a .gz may decompress
  // to.
  uint64_t bytes_max = uint64_t{16} << 30;
};

// The tensors of a file, in its order. A single tensor without a name gets the name "". Indices of
// sparse tensors are checked against the shape.
absl::StatusOr<std::vector<Tensor>> ReadTensors(const std::string& path,
                                                const ReadOptions& options = {});

// An upper bound for the bytes that the tensors of a file take in memory, for any value type that
// they are converted to. It is computed from the sizes of the file and its members, without reading
// them; a .gz is decompressed to find its size. FILE_UNUSABLE, MALFORMED_FILE, FILE_TOO_LARGE.
absl::StatusOr<uint64_t> TensorBytesMax(const std::string& path);

// Writes a temporary file next to `path` and renames it, so that no reader sees half of it. The
// same tensors give the same bytes. A single tensor is written without its name; a .mtx holds
// exactly one tensor, of two dimensions.
absl::Status WriteTensors(const std::string& path, std::span<const TensorView> tensors);

// Checks that WriteTensors() knows the suffix of `path`, so that a bad name is refused before the
// work is done.
absl::Status CheckOutputPath(const std::string& path);

// Whether the suffix of `path` is that of Matrix Market, whose values have no type.
bool IsMatrixMarketPath(const std::string& path);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_IO_TENSOR_FILE_H_

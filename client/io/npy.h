// The .npy format of NumPy: one array, as bytes.
//
//   "\x93NUMPY" major minor  header_bytes (u16 in version 1, u32 in 2 and 3; little-endian)
//   "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }" padded with blanks, ends with
//   '\n' the elements
#ifndef SPARSEAGG_CLIENT_IO_NPY_H_
#define SPARSEAGG_CLIENT_IO_NPY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "sparse/types.h"

namespace sparseagg::client {

// Elements in row-major order; an array that was stored in Fortran order is turned round.
struct NpyArray {
  char kind = 'f';        // NumPy's: f i u b S U
  size_t item_bytes = 4;  // of one element
  std::vector<int64_t> shape;
  std::string file;       // all bytes of the .npy
  size_t data_begin = 0;  // of the elements in `file`

  std::string_view data() const { return std::string_view(file).substr(data_begin); }
  uint64_t size() const { return (file.size() - data_begin) / item_bytes; }
  // "<f4"
  std::string dtype() const;
};

// Parses the bytes of a .npy. `path` and `where` are for errors: MALFORMED_FILE, also for
// big-endian elements, objects and structures, and lengths that do not agree.
absl::StatusOr<NpyArray> ParseNpy(std::string file, const std::string& path,
                                  const std::string& where);

// The bytes of a file, at most `bytes_max`. FILE_UNUSABLE, FILE_TOO_LARGE.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path,
                                          uint64_t bytes_max = uint64_t{16} << 30);

// The header of an array of this descr ("<f4") and shape; its elements follow it.
std::string NpyHeader(std::string_view descr, std::span<const int64_t> shape);

// The type of the values of an array, if it is one of ours (bf16 is not NumPy's: it is stored as
// u16 and named beside the array).
std::optional<ValueType> NpyValueType(const NpyArray& array);
std::string_view NpyDescr(ValueType type);

// The elements of an integer array. MALFORMED_FILE when the array has other elements, or a number
// outside [0, 2^63).
absl::StatusOr<std::vector<int64_t>> ToIntegers(const NpyArray& array, const std::string& path,
                                                const std::string& where);

// The text of an array of one byte string or unicode string (ASCII); nullopt when it is not one.
std::optional<std::string> ToText(const NpyArray& array);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_IO_NPY_H_

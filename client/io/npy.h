// The .npy format of NumPy: one array.
//
//   "\x93NUMPY" major minor header_bytes      u16 in version 1, u32 in 2 and 3; little-endian
//   "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"  padded with blanks, then '\n'
//   elements
#ifndef SPARSEAGG_CLIENT_IO_NPY_H_
#define SPARSEAGG_CLIENT_IO_NPY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "sparse/types.h"

namespace sparseagg::client {

// An array with little-endian elements in row-major order; ParseNpy() converts other byte orders
// and Fortran order.
struct NpyArray {
  char kind = 'f';        // NumPy's: f i u b S U, and V for the bfloat16 of ml_dtypes
  size_t item_bytes = 4;  // bytes of one element
  std::vector<int64_t> shape;
  std::string file;       // all bytes of the .npy
  size_t data_begin = 0;  // offset of the elements in `file`

  std::string_view data() const { return std::string_view(file).substr(data_begin); }
  uint64_t size() const { return (file.size() - data_begin) / item_bytes; }
  // "<f4"
  std::string dtype() const;
};

// Parses the bytes of a .npy. `path` and `where` are for errors. MALFORMED_FILE, also for arrays of
// objects, structures and complex numbers, and for lengths that do not agree.
absl::StatusOr<NpyArray> ParseNpy(std::string file, const std::string& path,
                                  const std::string& where);

// The array, without its elements (`file` is empty), of a .npy of `file_bytes` bytes that begins
// with `head`. nullopt if `head` does not contain the whole header, or ParseNpy() would refuse it.
std::optional<NpyArray> ParseNpyHead(std::string_view head, uint64_t file_bytes);
// The longest header.
inline constexpr size_t kNpyHeadBytesMax = 12 + (size_t{64} << 10);

// Reads a file of at most `bytes_max` bytes. FILE_UNUSABLE, FILE_TOO_LARGE.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path,
                                          uint64_t bytes_max = uint64_t{16} << 30);

// The bytes before the elements of an array with this descr ("<f4") and shape.
std::string NpyHeader(std::string_view descr, std::span<const int64_t> shape);

// The value type of a tensor with these values: the same type if there is one, i32 for smaller
// signed integers, u32 for smaller unsigned ones and bool, nullopt for others. (NumPy has no bf16:
// ml_dtypes stores it as V2; we store it as u16, with the type in another member.)
std::optional<ValueType> NpyValueType(const NpyArray& array);
std::string_view NpyDescr(ValueType type);

// The elements as values of `type`. REQUIRES: `type` is NpyValueType(array), or has the same size.
std::vector<std::byte> ToValues(const NpyArray& array, ValueType type);

// The elements of an integer array. MALFORMED_FILE if the elements are not integers, or one is
// outside [0, 2^63). An empty array may have any type, because NumPy makes it f8.
absl::StatusOr<std::vector<int64_t>> ToIntegers(const NpyArray& array, const std::string& path,
                                                const std::string& where);

// The same for numbers of [-2^63, 2^63).
absl::StatusOr<std::vector<int64_t>> ToSignedIntegers(const NpyArray& array,
                                                      const std::string& path,
                                                      const std::string& where);

// The text of an array of one byte string or unicode string (ASCII); nullopt when it is not one.
std::optional<std::string> ToText(const NpyArray& array);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_IO_NPY_H_

// The .npy format of NumPy: one array, as bytes.
//
//   "\x93NUMPY" major minor  header_bytes (u16 in version 1, u32 in 2 and 3; little-endian)
//   "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }" padded with blanks, ends with
//   '\n' the elements
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

// Little-endian elements in row-major order; an array that was stored in another way is turned
// round.
struct NpyArray {
  char kind = 'f';        // NumPy's: f i u b S U, and V for the bfloat16 of ml_dtypes
  size_t item_bytes = 4;  // of one element
  std::vector<int64_t> shape;
  std::string file;       // all bytes of the .npy
  size_t data_begin = 0;  // of the elements in `file`

  std::string_view data() const { return std::string_view(file).substr(data_begin); }
  uint64_t size() const { return (file.size() - data_begin) / item_bytes; }
  // "<f4"
  std::string dtype() const;
};

// Parses the bytes of a .npy. `path` and `where` are for errors: MALFORMED_FILE, also for objects,
// structures and complex numbers, and lengths that do not agree.
absl::StatusOr<NpyArray> ParseNpy(std::string file, const std::string& path,
                                  const std::string& where);

// The array of a .npy of `file_bytes` bytes that begins with `head`, without its elements: `file`
// is empty. nullopt when the header is not all in `head`, or is one that ParseNpy() refuses.
std::optional<NpyArray> ParseNpyHead(std::string_view head, uint64_t file_bytes);
// No header is longer.
inline constexpr size_t kNpyHeadBytesMax = 12 + (size_t{64} << 10);

// The bytes of a file, at most `bytes_max`. FILE_UNUSABLE, FILE_TOO_LARGE.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path,
                                          uint64_t bytes_max = uint64_t{16} << 30);

// The header of an array of this descr ("<f4") and shape; its elements follow it.
std::string NpyHeader(std::string_view descr, std::span<const int64_t> shape);

// The type that the values of an array have as a tensor: one of ours, i32 for smaller integers, u32
// for smaller ones without a sign and for bool; nullopt for others. (bf16 is not NumPy's: ml_dtypes
// has it as V2, and we store it as u16 and name it beside the array.)
std::optional<ValueType> NpyValueType(const NpyArray& array);
std::string_view NpyDescr(ValueType type);

// The elements as values of `type`. REQUIRES: it is NpyValueType(array), or one of as many bytes.
std::vector<std::byte> ToValues(const NpyArray& array, ValueType type);

// The elements of an integer array. MALFORMED_FILE when the array has other elements (without any,
// NumPy calls it one of f8), or a number outside [0, 2^63).
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

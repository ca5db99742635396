// The errors, shared by all encodings, for sizes that do not agree with the header.
#ifndef SPARSEAGG_SPARSE_ENCODINGS_SIZE_ERROR_H_
#define SPARSEAGG_SPARSE_ENCODINGS_SIZE_ERROR_H_

#include <limits>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sparse/encoding.h"

namespace sparseagg {

inline absl::Status SizeError(const EncodedHeader& header, std::string_view what,
                              const std::string& expected, uint64_t got) {
  return MakeError(
      absl::StatusCode::kInvalidArgument, "SIZE_MISMATCH",
      absl::StrCat("tensor \"", header.name, "\": nnz ", header.nnz, " needs ", expected,
                   " bytes of ", std::string(what), ", the update has ", got));
}

inline std::string BytesText(unsigned __int128 bytes) {
  return bytes > std::numeric_limits<uint64_t>::max() ? std::string("over 2^64")
                                                      : absl::StrCat(static_cast<uint64_t>(bytes));
}

// Checks that a dense tensor has one row, or none.
inline absl::Status CheckDenseNnz(const EncodedHeader& header) {
  if (header.sparse_dim != 0 || header.nnz <= 1) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, "SIZE_MISMATCH",
                   absl::StrCat("tensor \"", header.name, "\": nnz is ", header.nnz,
                                "; a dense tensor (sparse_dim 0) has nnz 1, or 0 for nothing"));
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ENCODINGS_SIZE_ERROR_H_

// The sender's choice: entries into the smallest encoding that says the same, or the one asked for.
#ifndef SPARSEAGG_SPARSE_ENCODE_H_
#define SPARSEAGG_SPARSE_ENCODE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "sparse/encoding.h"

namespace sparseagg {

struct EncodeOptions {
  // A name of AllEncodings(), or "auto": the one with the fewest bytes.
  std::string encoding = "auto";
  // A name of AllValueCodings(), or "auto": the one with the fewest bytes that changes no value.
  // Whatever is asked for, integers and 16-bit values stay as they are, and so does everything in
  // coo.raw when the encoding is chosen automatically.
  std::string values = "auto";
  uint64_t rounding_seed = 0;  // of stochastic values: the same seed gives the same bytes
};

// Appends the payload of `entries` and fills encoding, values_encoding, nnz and the sizes of
// `header` (the rest is the caller's). Unsorted entries are sorted for coo.packed: their sum is the
// same. INVALID_ARGUMENT: UNKNOWN_ENCODING, UNKNOWN_VALUES_ENCODING, VALUE_NOT_CODABLE,
// INDEX_OUT_OF_RANGE for a row that the header's shape does not have.
absl::Status EncodeTensor(const CooView& entries, const EncodeOptions& options,
                          EncodedHeader& header, std::string& indices, std::string& values);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ENCODE_H_

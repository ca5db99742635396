// Encodes a tensor for sending: in the smallest encoding that changes no value, or in a requested
// one.
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
  // Integers and 16-bit values are always sent as they are, and so are all values when the encoding
  // "auto" chooses coo.raw.
  std::string values = "auto";
  uint64_t rounding_seed = 0;  // for stochastic codings: the same seed gives the same bytes
};

// Appends the payload of `entries` and sets encoding, values_encoding, nnz and the sizes of
// `header`; the caller sets the rest. Unsorted entries are sorted for coo.packed, which does not
// change their sum. Returns INVALID_ARGUMENT: UNKNOWN_ENCODING, UNKNOWN_VALUES_ENCODING,
// VALUE_NOT_CODABLE, or INDEX_OUT_OF_RANGE for a row that the header's shape does not have.
absl::Status EncodeTensor(const CooView& entries, const EncodeOptions& options,
                          EncodedHeader& header, std::string& indices, std::string& values);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ENCODE_H_

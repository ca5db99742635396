// coo.packed: rows as differences of as few bits as each block of 256 needs, values in one of the
// codings of sparse/encodings/value_coding.h. docs/wire_format.md has the grammar and an example.
//
//   indices := entry * words *       sparse/encodings/packed_block.h; one entry for 256 rows, then
//                                    the blocks' words, without gaps, in the order of the entries
//   values  := sparse/encodings/value_coding.h
//
// Rows are flattened, never descend, and may repeat. All entries come before all words and state
// where a block's words begin, so any block can be decoded without the ones before it. The indices
// of a tensor that holds every row cost half a bit per entry. A dense tensor (sparse_dim 0) has no
// indices and nnz 0 or 1. The header's index_type is ignored.
#ifndef SPARSEAGG_SPARSE_ENCODINGS_COO_PACKED_H_
#define SPARSEAGG_SPARSE_ENCODINGS_COO_PACKED_H_

#include <cstdint>
#include <memory>
#include <string>

#include "sparse/encoding.h"

namespace sparseagg {

absl::Status InspectCooPacked(const EncodedHeader& header, const TensorSpec& spec);

// Returns INVALID_ARGUMENT (MALFORMED_BLOCK) or DATA_LOSS (CHECKSUM_MISMATCH), naming tensor and
// block, or INVALID_ARGUMENT (INDEX_OUT_OF_RANGE), naming the entry.
absl::Status DecodeCooPacked(const EncodedHeader& header, const TensorSpec& spec, ByteChain indices,
                             ByteChain values, const MutableCooView& out);

// The decoder buffers indices, and values with scales, until all of them have arrived.
std::unique_ptr<TensorDecoder> CooPackedDecoder(const EncodedHeader& header, const TensorSpec& spec,
                                                const MutableCooView& out);
uint64_t CooPackedBufferedBytes(const EncodedHeader& header);
inline CompactRowForms CooPackedRowForms(const EncodedHeader& header) {
  return {.packed_bytes = header.indices_bytes};
}

// Encodes the values as header.values_encoding states; stochastic codings use seed 0. Returns
// INVALID_ARGUMENT (UNSORTED_ENTRIES) if a row descends, and the errors of EncodeValues().
absl::Status EncodeCooPacked(const CooView& entries, EncodedHeader& header, std::string& indices,
                             std::string& values);

// Appends the indices alone. REQUIRES: rows never descend and are below 2^63.
void AppendPackedIndices(const uint64_t* rows, uint64_t nnz, std::string& out);

inline constexpr Encoding kCooPacked = {
    "coo.packed",      &InspectCooPacked,       &DecodeCooPacked,
    &CooPackedDecoder, &CooPackedBufferedBytes, &CooPackedRowForms,
    &EncodeCooPacked};

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ENCODINGS_COO_PACKED_H_

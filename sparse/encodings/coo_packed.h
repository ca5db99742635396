// coo.packed: rows as differences of as few bits as each block of 256 needs, values in one of the
// codings of sparse/encodings/value_coding.h. docs/wire_format.md has the grammar and an example.
//
//   indices := entry * words *       sparse/encodings/packed_block.h; one entry for 256 rows, then
//                                    the blocks' words, without gaps, in the order of the entries
//   values  := sparse/encodings/value_coding.h
//
// Rows are flattened, never descend, and may repeat. All entries come before all words and say
// where a block's words begin: any block can be decoded without the ones before it. A full tensor
// costs half a bit an entry for its indices. sparse_dim 0 (a dense tensor): no indices, nnz 0 or 1.
// The header's index_type means nothing.
#ifndef SPARSEAGG_SPARSE_ENCODINGS_COO_PACKED_H_
#define SPARSEAGG_SPARSE_ENCODINGS_COO_PACKED_H_

#include <cstdint>
#include <memory>
#include <string>

#include "sparse/encoding.h"

namespace sparseagg {

absl::Status InspectCooPacked(const EncodedHeader& header, const TensorSpec& spec);

// Errors: MALFORMED_BLOCK and CHECKSUM_MISMATCH name tensor and block, INDEX_OUT_OF_RANGE the
// entry.
absl::Status DecodeCooPacked(const EncodedHeader& header, const TensorSpec& spec, ByteChain indices,
                             ByteChain values, const MutableCooView& out);

// Indices, and values with scales, are kept until all of them are there.
std::unique_ptr<TensorDecoder> CooPackedDecoder(const EncodedHeader& header, const TensorSpec& spec,
                                                const MutableCooView& out);
uint64_t CooPackedKeptBytes(const EncodedHeader& header);

// Values as header.values_encoding says; stochastic ones with the seed 0. INVALID_ARGUMENT
// (UNSORTED_ENTRIES) unless the rows never descend, and the errors of the values.
absl::Status EncodeCooPacked(const CooView& entries, EncodedHeader& header, std::string& indices,
                             std::string& values);

// The indices alone. REQUIRES: rows never descend, below 2^63.
void AppendPackedIndices(const uint64_t* rows, uint64_t nnz, std::string& out);

inline constexpr Encoding kCooPacked = {"coo.packed",      &InspectCooPacked,   &DecodeCooPacked,
                                        &CooPackedDecoder, &CooPackedKeptBytes, &EncodeCooPacked};

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ENCODINGS_COO_PACKED_H_

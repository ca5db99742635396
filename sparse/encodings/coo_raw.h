// coo.raw: the arrays as they lie in memory.
//
//   indices := nnz x sparse_dim x index     index := i64 | i32, by the header's index_type
//   values  := nnz x row_width x value      value := a number of the header's value_type
//
// All numbers are little-endian. Entries may come in any order, and indices may repeat. A dense
// tensor (sparse_dim 0) has no indices and nnz 0 or 1.
#ifndef SPARSEAGG_SPARSE_ENCODINGS_COO_RAW_H_
#define SPARSEAGG_SPARSE_ENCODINGS_COO_RAW_H_

#include <cstdint>
#include <memory>
#include <string>

#include "sparse/encoding.h"

namespace sparseagg {

absl::Status InspectCooRaw(const EncodedHeader& header, const TensorSpec& spec);
absl::Status DecodeCooRaw(const EncodedHeader& header, const TensorSpec& spec, ByteChain indices,
                          ByteChain values, const MutableCooView& out);
std::unique_ptr<TensorDecoder> CooRawDecoder(const EncodedHeader& header, const TensorSpec& spec,
                                             const MutableCooView& out);
inline uint64_t CooRawBufferedBytes(const EncodedHeader& /*header*/) { return 0; }
inline CompactRowForms CooRawRowForms(const EncodedHeader& header) {
  return {.narrow = header.sparse_dim == 1};
}
absl::Status EncodeCooRaw(const CooView& entries, EncodedHeader& header, std::string& indices,
                          std::string& values);

inline constexpr Encoding kCooRaw = {"coo.raw",      &InspectCooRaw,       &DecodeCooRaw,
                                     &CooRawDecoder, &CooRawBufferedBytes, &CooRawRowForms,
                                     &EncodeCooRaw};

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ENCODINGS_COO_RAW_H_

// The rows that a reader of a result asked for: IndexSelection of the wire, checked and flattened.
#ifndef SPARSEAGG_SERVICE_RPC_RESULT_SELECTION_H_
#define SPARSEAGG_SERVICE_RPC_RESULT_SELECTION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "sparse/types.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// Flattened rows in the order of the selection, repetitions kept. INVALID_ARGUMENT: a tensor
// without indices or bytes that are no whole number of indices (INVALID_SELECTION), an index
// outside the shape (INDEX_OUT_OF_RANGE).
absl::StatusOr<std::vector<uint64_t>> SelectedRows(const v1::IndexSelection& selection,
                                                   const TensorSpec& spec);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_RESULT_SELECTION_H_

// Checks and flattens the row selection of a request (IndexSelection).
#ifndef SPARSEAGG_SERVICE_RPC_RESULT_SELECTION_H_
#define SPARSEAGG_SERVICE_RPC_RESULT_SELECTION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "sparse/types.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// Returns the flattened rows in the order of the selection, repetitions kept. INVALID_ARGUMENT:
// INVALID_SELECTION for a tensor without indices, or bytes that are not a whole number of indices;
// INDEX_OUT_OF_RANGE for an index outside the shape.
absl::StatusOr<std::vector<uint64_t>> SelectedRows(const v1::IndexSelection& selection,
                                                   const TensorSpec& spec);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_RESULT_SELECTION_H_

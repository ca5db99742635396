// A result in parts that a slow, large accumulator can be made for one after another: the rows of a
// tensor are cut where a part would take too much memory, and where a single row does, its columns.
// Each part is a sum of its own, of the entries that fall into it.
#ifndef SPARSEAGG_SERVICE_ENGINE_RESULT_RESULT_BLOCK_H_
#define SPARSEAGG_SERVICE_ENGINE_RESULT_RESULT_BLOCK_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "sparse/backend.h"

namespace sparseagg {

struct ResultBlock {
  size_t tensor = 0;
  // Which rows of the index space it stands for: the blocks of a tensor leave none out.
  uint64_t first_row = 0;
  uint64_t end_row = 0;
  // Where those that the result has are in it.
  uint64_t first_entry = 0;
  uint64_t entries = 0;
  // Of the input's values, all or, where the result has as many, some.
  uint32_t first_column = 0;
  uint32_t columns = 0;
  uint64_t bytes = 0;  // that the back end takes for it, by its cost model
};

// The blocks of all tensors, in groups that take `bytes_max` together, or more where a single value
// does. `specs` and `tensors` belong together. Errors of MakePlan().
absl::StatusOr<std::vector<std::vector<ResultBlock>>> CutIntoBlocks(
    std::span<const ReduceSpec> specs, std::span<const SparseTensor> tensors,
    const BackendInfo& backend, uint64_t bytes_max);

// The reduction of the block's part of a tensor that is reduced by `spec`.
ReduceSpec SpecOf(const ResultBlock& block, ReduceSpec spec);

// The block's part of `update`, in memory of `aggregator`, in the order that it had. DATA_LOSS
// (RESULT_MISMATCH) for a row that the result does not have: every row of an update is in it.
absl::StatusOr<StagedUpdate> PartOf(const ResultBlock& block, const StagedUpdate& update,
                                    const ReduceSpec& spec, const SparseTensor& result,
                                    const Aggregator& aggregator);

// Compares every bit with the block's part of `result`. DATA_LOSS (RESULT_MISMATCH) names the first
// row that differs.
absl::Status CheckBlock(const ResultBlock& block, const ReduceSpec& spec, const SparseTensor& part,
                        const SparseTensor& result);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_RESULT_RESULT_BLOCK_H_

// Divides a result into blocks, so that a back end with large accumulators can compute it block by
// block. The rows of a tensor are divided so that a block fits in memory, and the columns too if a
// single row does not fit. Each block is a reduction of its own, over the entries that fall into
// it.
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
  // Rows of the index space in this block. The blocks of a tensor cover all rows.
  uint64_t first_row = 0;
  uint64_t end_row = 0;
  // The entries of the result in this block.
  uint64_t first_entry = 0;
  uint64_t entries = 0;
  // Columns of the input in this block: all, or a part if the result has as many columns as the
  // input.
  uint32_t first_column = 0;
  uint32_t columns = 0;
  uint64_t bytes = 0;  // memory of the back end, by its cost model
};

// Returns the blocks of all tensors, in groups that together take at most `bytes_max`, or more if a
// single value does. `specs` and `tensors` have the same order. Errors are those of MakePlan().
absl::StatusOr<std::vector<std::vector<ResultBlock>>> CutIntoBlocks(
    std::span<const ReduceSpec> specs, std::span<const SparseTensor> tensors,
    const BackendInfo& backend, uint64_t bytes_max);

// Returns the specification that reduces the block of a tensor with specification `spec`.
ReduceSpec SpecOf(const ResultBlock& block, ReduceSpec spec);

// Returns the entries of `update` in this block, in memory of `aggregator` and in their order.
// Returns DATA_LOSS (RESULT_MISMATCH) for a row that the result does not have, since a result has
// every row of every update.
absl::StatusOr<StagedUpdate> PartOf(const ResultBlock& block, const StagedUpdate& update,
                                    const ReduceSpec& spec, const SparseTensor& result,
                                    const Aggregator& aggregator);

// Returns the part of a partial aggregate that is in this block. Errors are those of PartOf()
// above.
absl::StatusOr<Partial> PartOf(const ResultBlock& block, const Partial& partial,
                               const SparseTensor& result);

// Compares every bit of `part` with this block of `result`. Returns DATA_LOSS (RESULT_MISMATCH),
// naming the first row that differs.
absl::Status CheckBlock(const ResultBlock& block, const ReduceSpec& spec, const SparseTensor& part,
                        const SparseTensor& result);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_RESULT_RESULT_BLOCK_H_

// Plan "dense_accumulate": a slot for every coordinate of the index space and a bit for every row
// that somebody holds, in device memory over the whole round. Entries are added as they come, with
// integer atomics; nothing is sorted.
#ifndef SPARSEAGG_CUDA_KERNELS_DENSE_STATE_H_
#define SPARSEAGG_CUDA_KERNELS_DENSE_STATE_H_

#include <cstdint>

#include "cuda/slot_run.h"

namespace sparseagg::gpu {

// Sums: slots [num_rows, slots()] as in sparse/partial.h. Min and max: the same numbers of 64-bit
// ordered keys, since there are atomics for those.
struct DenseState {
  DeviceArray<Int128> slots;
  DeviceArray<uint64_t> keys;
  DeviceArray<uint32_t> held;  // bit r % 32 of word r / 32: row r is held
  uint64_t num_rows = 0;
};

// All empty. Throws CudaError when there is no memory for it.
DenseState MakeDenseState(Queue& queue, const SlotRule& rule, uint64_t num_rows);

// Adds a batch. REQUIRES: no duplicates inside an update, unless the rule has neither a row slot
// nor extremes.
void AddBatch(Queue& queue, const SlotRule& rule, const BatchView& batch, DenseState& state);

// Adds a run. Does not wait.
void AddRun(Queue& queue, const SlotRule& rule, const SlotRun& run, DenseState& state);

// The rows held and their slots. Does not change the state. Synchronises the queue.
SlotRun ListHeld(Queue& queue, const SlotRule& rule, const DenseState& state);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_DENSE_STATE_H_

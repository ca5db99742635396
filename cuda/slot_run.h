// Runs, the sorted state of a reduction, and their memory. How many rows a run has is known to the
// device first. Where there is memory in plenty, a run takes it for as many rows as there can be,
// and the host hears of the number when it waits for the end of the batch anyway; where there is
// not, it waits for the number before it takes memory.
#ifndef SPARSEAGG_CUDA_SLOT_RUN_H_
#define SPARSEAGG_CUDA_SLOT_RUN_H_

#include <cstdint>

#include "cuda/kernels/batch.h"
#include "cuda/kernels/launch/count.h"
#include "cuda/raii/queue.h"

namespace sparseagg::gpu {

// Rows strictly ascending, with their slots, in device memory.
struct SlotRun {
  DeviceArray<uint64_t> rows;         // [size]; may be longer
  DeviceArray<Int128> slots;          // [size, slots()]; may be longer
  uint64_t size = 0;                  // an upper bound while only the device knows it
  DeviceArray<uint64_t> number = {};  // [1]: rows, while the device alone knows

  Count count() const { return {number.data(), size}; }
  bool is_counted() const { return number.data() == nullptr; }
  uint64_t bytes() const { return rows.bytes() + slots.bytes(); }
};

// Device memory of a run.
uint64_t RunBytes(const SlotRule& rule, uint64_t rows);

// Memory for the rows that *number (device memory) says, at most `most`. Waits for the queue where
// `most` rows would take more than a small part of the memory that is free. Throws CudaError.
SlotRun MakeRun(Queue& queue, const SlotRule& rule, const uint64_t* number, uint64_t most);

// Returns whether a run of `most` rows takes no more than a small part of the free memory.
bool HasRoom(Queue& queue, const SlotRule& rule, uint64_t most);

// The memory into which kernels write a run. Without `rows` they write the number of rows only.
struct RunOutput {
  uint64_t* rows = nullptr;
  Int128* slots = nullptr;
  uint64_t* number = nullptr;
};

// A run that fill(output), called once, counts and writes in one pass, at most `most` rows, most >
// 0. Where memory is short fill is called twice: it counts, the queue is waited for, and memory is
// taken for the rows that there are. Throws CudaError.
template <class Fill>
SlotRun FillRun(Queue& queue, const SlotRule& rule, uint64_t most, const Fill& fill) {
  SlotRun run;
  run.number = {queue, 1};
  run.size = most;
  const bool counts_first = !HasRoom(queue, rule, most);
  if (counts_first) {
    fill(RunOutput{.number = run.number.data()});
    run.size = queue.Read(run.number.data());
  }
  run.rows = {queue, run.size};
  run.slots = {queue, run.size * rule.slots()};
  if (run.size != 0) fill(RunOutput{run.rows.data(), run.slots.data(), run.number.data()});
  if (counts_first) run.number.Reset();
  return run;
}

// Waits for the queue unless the host knows already. Throws CudaError.
void CountRows(Queue& queue, SlotRun& run);

// Sets the number of rows, which the device has counted. Gives memory back when most of it is not
// needed. Does not wait, and does not throw that memory is out.
void SetCount(Queue& queue, const SlotRule& rule, uint64_t rows, SlotRun& run);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_SLOT_RUN_H_

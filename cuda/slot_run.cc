#include "cuda/slot_run.h"

#include <utility>

#include "cuda/error.h"

namespace sparseagg::gpu {
namespace {

// Sorting or merging into the run takes half as much again; then there is the next merge.
constexpr uint64_t kShareOfFree = 4;
// Less is not worth a copy.
constexpr uint64_t kSpareBytes = uint64_t{1} << 20;

}  // namespace

uint64_t RunBytes(const SlotRule& rule, uint64_t rows) {
  return rows * (sizeof(uint64_t) + rule.slots() * sizeof(Int128));
}

bool HasRoom(Queue& queue, const SlotRule& rule, uint64_t most) {
  return RunBytes(rule, most) <= queue.pool().free_bytes() / kShareOfFree;
}

SlotRun MakeRun(Queue& queue, const SlotRule& rule, const uint64_t* number, uint64_t most) {
  SlotRun run;
  run.size = most;
  if (HasRoom(queue, rule, most)) {
    run.number = {queue, 1};
    queue.CopyOnDevice(run.number.data(), number, 1);
  } else {
    run.size = queue.Read(number);
  }
  run.rows = {queue, run.size};
  run.slots = {queue, run.size * rule.slots()};
  return run;
}

void CountRows(Queue& queue, SlotRun& run) {
  if (run.is_counted()) return;
  run.size = queue.Read(run.number.data());
  run.number.Reset();
}

void SetCount(Queue& queue, const SlotRule& rule, uint64_t rows, SlotRun& run) {
  run.size = rows;
  run.number.Reset();
  if (run.bytes() <= 2 * RunBytes(rule, rows) + kSpareBytes) return;
  try {
    SlotRun fitting{{queue, rows}, {queue, rows * rule.slots()}, rows};
    queue.CopyOnDevice(fitting.rows.data(), run.rows.data(), rows);
    queue.CopyOnDevice(fitting.slots.data(), run.slots.data(), fitting.slots.size());
    run = std::move(fitting);
  } catch (const CudaError& error) {
    if (!error.out_of_memory()) throw;  // otherwise it stays as it is
  }
}

}  // namespace sparseagg::gpu

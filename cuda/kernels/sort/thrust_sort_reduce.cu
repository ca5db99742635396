// In: a batch, updates with rows [nnz] and values [nnz, width]. Out: a run, rows [size] and slots
// [size, slots()].
//
// Rows and entry numbers are sorted (radix, all 64 bits: 8 passes over 12 bytes), stable, so that
// the entries of an update lie together in each row. Scalars: a slot of 16 bytes for each entry,
// then reduce_by_key; 128-bit integers, so its order does not matter, which for floats it would
// (Thrust's sums of floats differ from call to call). Rows of several values: one thread for each
// slot walks its row's entries, in pieces (row_pieces.h).
// Source: the sort and reduce by key of Thrust's examples (sparse_vector.cu).
#include <thrust/functional.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/discard_iterator.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>
#include <thrust/unique.h>

#include "cuda/kernels/launch/thrust_policy.cuh"
#include "cuda/kernels/rows/row_of_slots.h"
#include "cuda/kernels/sort/sorted_slots.h"
#include "cuda/kernels/sort/thrust_sort_reduce.h"

namespace sparseagg::gpu {
namespace {

template <uint32_t kSlots>
SlotRun ReduceScalars(Queue& queue, const BatchView& batch, const SlotRule& rule,
                      const SortedEntries& sorted) {
  using Row = RowOfSlots<kSlots>;
  DeviceArray<Int128> addends(queue, sorted.size * kSlots);
  FillSlots(queue, batch, rule, sorted, addends.data());
  SlotRun run{{queue, sorted.size}, {queue, sorted.size * kSlots}, 0};
  run.size = WithThrust(queue, "thrust::reduce_by_key", [&](const auto& policy) {
    const auto ends = thrust::reduce_by_key(policy, sorted.rows, sorted.rows + sorted.size,
                                            reinterpret_cast<Row*>(addends.data()), run.rows.data(),
                                            reinterpret_cast<Row*>(run.slots.data()),
                                            thrust::equal_to<uint64_t>(), JoinRows<kSlots>{rule});
    return static_cast<uint64_t>(ends.first - run.rows.data());
  });
  return run;
}

SlotRun ReduceWideRows(Queue& queue, const BatchView& batch, const SlotRule& rule,
                       const SortedEntries& sorted) {
  DeviceArray<uint64_t> starts(queue, sorted.size);
  SlotRun run{{queue, sorted.size}, {}, 0};
  run.size = WithThrust(queue, "thrust::unique_by_key_copy", [&](const auto& policy) {
    const auto ends = thrust::unique_by_key_copy(policy, sorted.rows, sorted.rows + sorted.size,
                                                 thrust::counting_iterator<uint64_t>(0),
                                                 run.rows.data(), starts.data());
    return static_cast<uint64_t>(ends.first - run.rows.data());
  });
  run.slots = {queue, run.size * rule.slots()};
  WalkRows(queue, batch, rule, sorted, starts.data(), run.count(), run.slots.data());
  return run;
}

}  // namespace

SlotRun ReduceByThrust(Queue& queue, const BatchView& batch, const SlotRule& rule) {
  DeviceArray<uint64_t> rows(queue, batch.nnz);
  DeviceArray<uint32_t> entries(queue, batch.nnz);
  FlattenRows(queue, batch, rows.data(), entries.data());
  WithThrust(queue, "thrust::stable_sort_by_key", [&](const auto& policy) {
    thrust::stable_sort_by_key(policy, rows.data(), rows.data() + batch.nnz, entries.data());
    return 0;
  });
  const SortedEntries sorted{rows.data(), entries.data(), batch.nnz};
  if (rule.slots() == 1) return ReduceScalars<1>(queue, batch, rule, sorted);
  if (rule.slots() == 2) return ReduceScalars<2>(queue, batch, rule, sorted);
  return ReduceWideRows(queue, batch, rule, sorted);
}

}  // namespace sparseagg::gpu

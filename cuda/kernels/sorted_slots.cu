// In: sorted rows [size] and entry numbers [size] of a batch. Out: slots [size, slots()] or
// [num_runs, slots()].
//
// One thread a slot. FillSlots reads 12 bytes of the sorted arrays and gathers one value, a sector
// of 32 bytes, and writes 16. WalkRows reads the same and writes only at the end of a row; it
// serialises on hot rows.
#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/slots.cuh"
#include "cuda/kernels/sorted_slots.h"

namespace sparseagg::gpu {
namespace {

struct Flatten {
  BatchView batch;
  uint64_t* rows;
  uint32_t* entries;

  SPARSEAGG_DEVICE void operator()(uint64_t e) const {
    const UpdateRef& update = batch.updates[SourceOf(batch, e)];
    rows[e] = update.rows[e - update.first];
    entries[e] = static_cast<uint32_t>(e);
  }
};

template <class V>
struct Fill {
  SortedBatch<V> sorted;
  Int128* slots;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint32_t width = sorted.rule.slots();
    slots[i] = sorted.Slot(i / width, static_cast<uint32_t>(i % width));
  }
};

template <class V>
struct Walk {
  SortedBatch<V> sorted;
  const uint64_t* starts;
  uint64_t num_runs;
  Int128* slots;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint32_t width = sorted.rule.slots();
    const uint64_t r = i / width;
    const auto c = static_cast<uint32_t>(i % width);
    const uint64_t end = r + 1 < num_runs ? starts[r + 1] : sorted.size;
    Int128 slot = sorted.rule.Empty(c);
    for (uint64_t p = starts[r]; p < end; ++p) slot = sorted.rule.Join(c, slot, sorted.Slot(p, c));
    slots[i] = slot;
  }
};

template <class V>
SortedBatch<V> SortedOf(const BatchView& batch, const SlotRule& rule, const SortedEntries& sorted) {
  return {batch, rule, sorted.rows, sorted.entries, sorted.size};
}

}  // namespace

void FlattenRows(Queue& queue, const BatchView& batch, uint64_t* rows, uint32_t* entries) {
  ForEach(queue, batch.nnz, Flatten{batch, rows, entries});
}

void FillSlots(Queue& queue, const BatchView& batch, const SlotRule& rule,
               const SortedEntries& sorted, Int128* slots) {
  WithValueType(rule.type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    ForEach(queue, sorted.size * rule.slots(), Fill<V>{SortedOf<V>(batch, rule, sorted), slots});
  });
}

void WalkRows(Queue& queue, const BatchView& batch, const SlotRule& rule,
              const SortedEntries& sorted, const uint64_t* starts, uint64_t num_runs,
              Int128* slots) {
  WithValueType(rule.type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    ForEach(queue, num_runs * rule.slots(),
            Walk<V>{SortedOf<V>(batch, rule, sorted), starts, num_runs, slots});
  });
}

}  // namespace sparseagg::gpu

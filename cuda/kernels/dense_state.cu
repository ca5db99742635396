// In: batches or runs. State: slots [num_rows, slots()] or keys, held [num_rows / 32]. Out: a run.
//
// AddBatch: one thread a slot of an entry; 12 bytes read, one 64-bit atomic add in device memory
// or the second cache (two when the sum carries or the addend is negative), and one test, seldom a
// write, of the row's bit. Bound by the rate of atomics: 22e9 a second beyond the cache, 80e9 in it
// (model). A row that all entries have serialises: the planner avoids this plan for such rounds.
// ListHeld: a block of 256 threads counts, and then writes, what 8192 rows hold: the bits are read
// twice, slots of held rows once.
#include "cuda/kernels/dense_state.h"
#include "cuda/kernels/launch/block_scan.cuh"
#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/launch/scan.h"
#include "cuda/kernels/ordered_key.h"
#include "cuda/kernels/slots.cuh"

namespace sparseagg::gpu {
namespace {

// The state as kernels see it.
struct View {
  SlotRule rule;
  Int128* slots;
  uint64_t* keys;
  uint32_t* held;

  SPARSEAGG_DEVICE void Hold(uint64_t row) const {
    const uint32_t bit = uint32_t{1} << (row % 32);
    if ((held[row / 32] & bit) == 0) AtomicOr(&held[row / 32], bit);
  }
  SPARSEAGG_DEVICE void Add(uint64_t row, uint32_t c, Int128 slot) const {
    const uint64_t at = row * rule.slots() + c;
    if (!rule.extreme()) {
      if (slot != 0) AtomicAddSlot(&slots[at], slot);
    } else if (rule.values == ValueSlots::kMin) {
      AtomicMin(&keys[at], Ordered(rule, slot));
    } else {
      AtomicMax(&keys[at], Ordered(rule, slot));
    }
  }
};

View ViewOf(const SlotRule& rule, const DenseState& state) {
  return {rule, state.slots.data(), state.keys.data(), state.held.data()};
}

template <class V>
struct Scatter {
  BatchView batch;
  View state;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const SlotRule& rule = state.rule;
    const uint64_t e = i / rule.slots();
    const auto c = static_cast<uint32_t>(i % rule.slots());
    const UpdateRef& update = batch.updates[SourceOf(batch, e)];
    const uint64_t own = e - update.first;
    const uint64_t row = update.rows[own];
    if (c == 0) state.Hold(row);
    if (c == rule.value_slots()) {
      state.Add(row, c, RowAddend(rule, update.weight));
      return;
    }
    const V value = ValueAt<V>(update, own, batch.width, c);
    state.Add(row, c,
              rule.extreme() ? KeyOf(value, rule.overflow)
                             : FixedProduct(value, update.weight, rule.lsb));
  }
};

struct ScatterRun {
  const uint64_t* rows;
  const Int128* slots;
  View state;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint32_t width = state.rule.slots();
    const uint64_t row = rows[i / width];
    const auto c = static_cast<uint32_t>(i % width);
    if (c == 0) state.Hold(row);
    state.Add(row, c, slots[i]);
  }
};

constexpr unsigned kListThreads = 256;
constexpr uint64_t kListRows = uint64_t{kListThreads} * 32;

// Counts the held rows of each block, or, with `first`, lists them.
struct ListBlock {
  static constexpr unsigned kThreads = kListThreads;
  struct Shared {};
  struct Local {};

  View state;
  uint64_t num_words;
  uint64_t* counts;       // [blocks + 1], written when `first` is null
  const uint64_t* first;  // [blocks + 1]
  uint64_t* rows;
  Int128* slots;

  template <class Block>
  SPARSEAGG_DEVICE void Run(Block& block) const {
    ScanBlock<kThreads>(
        block,
        [&](unsigned t, Local&) {
          return static_cast<uint64_t>(PopulationCount(Word(block.index, t)));
        },
        [&](unsigned t, Local&, uint64_t before, uint64_t all) {
          if (first != nullptr) {
            List(block.index, t, first[block.index] + before);
          } else if (t == 0) {
            counts[block.index] = all;
            if (block.index + 1 == block.count) counts[block.count] = 0;
          }
        });
  }

 private:
  SPARSEAGG_DEVICE uint32_t Word(uint64_t block, unsigned t) const {
    const uint64_t word = block * kListThreads + t;
    return word < num_words ? state.held[word] : 0;
  }

  SPARSEAGG_DEVICE void List(uint64_t block, unsigned t, uint64_t at) const {
    const uint32_t width = state.rule.slots();
    for (uint64_t bits = Word(block, t); bits != 0; bits &= bits - 1, ++at) {
      const uint64_t row =
          (block * kListThreads + t) * 32 + static_cast<uint64_t>(CountTrailingZeros(bits));
      rows[at] = row;
      for (uint32_t c = 0; c < width; ++c) {
        slots[at * width + c] = state.rule.extreme()
                                    ? KeyOfOrdered(state.rule, state.keys[row * width + c])
                                    : state.slots[row * width + c];
      }
    }
  }
};

}  // namespace

DenseState MakeDenseState(Queue& queue, const SlotRule& rule, uint64_t num_rows) {
  DenseState state;
  state.num_rows = num_rows;
  state.held = {queue, (num_rows + 31) / 32};
  queue.Fill(state.held.data(), 0, state.held.size());
  const uint64_t slots = num_rows * rule.slots();
  if (rule.extreme()) {
    state.keys = {queue, slots};
    queue.Fill(state.keys.data(), rule.values == ValueSlots::kMin ? 0xFF : 0, slots);
  } else {
    state.slots = {queue, slots};
    queue.Fill(state.slots.data(), 0, slots);
  }
  return state;
}

void AddBatch(Queue& queue, const SlotRule& rule, const BatchView& batch, DenseState& state) {
  WithValueType(rule.type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    ForEach(queue, batch.nnz * rule.slots(), Scatter<V>{batch, ViewOf(rule, state)});
  });
}

void AddRun(Queue& queue, const SlotRule& rule, const SlotRun& run, DenseState& state) {
  ForEach(queue, run.count(), rule.slots(),
          ScatterRun{run.rows.data(), run.slots.data(), ViewOf(rule, state)});
}

SlotRun ListHeld(Queue& queue, const SlotRule& rule, const DenseState& state) {
  const uint64_t blocks = (state.num_rows + kListRows - 1) / kListRows;
  DeviceArray<uint64_t> first(queue, blocks + 1);
  ListBlock list{ViewOf(rule, state), state.held.size(), first.data(), nullptr, nullptr, nullptr};
  ForEachBlock(queue, blocks, list);
  ExclusiveSum(queue, first.data(), blocks + 1);
  const uint64_t size = queue.Read(first.data() + blocks);
  SlotRun run{{queue, size}, {queue, size * rule.slots()}, size};
  list.first = first.data();
  list.rows = run.rows.data();
  list.slots = run.slots.data();
  ForEachBlock(queue, blocks, list);
  return run;
}

}  // namespace sparseagg::gpu

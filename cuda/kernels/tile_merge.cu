// In: a batch of sorted updates of scalars. Out: a run, rows [size] and slots [size, slots()].
//
// The index space is cut into sweeps of about as many entries each (by a sample); a block of 256
// threads does one. It holds a tile of 4096 slots of 16 bytes in shared memory, and a cursor for
// each update. A group of 1 to 32 threads takes the entries of one update that lie in the tile,
// adds them with two 64-bit shared atomics each, and moves the cursor on; then the tile's held rows
// are written, in order, to the sweep's part of the output. The next tile begins at the lowest row
// that any cursor stands at, so empty parts of the index space cost nothing. Bytes an entry: 12 for
// scalars of 4 bytes, more where an update has less than a sector in a tile; 48 for each row of the
// result (written, and moved together). Shared memory 66 KB: three blocks on a multiprocessor of
// 228 KB. Source: the merge by tiles is the sweep of cpu/sparse_reduction.cc.
#include <algorithm>

#include "cuda/kernels/block_scan.cuh"
#include "cuda/kernels/device_sort.h"
#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/scan.h"
#include "cuda/kernels/search.cuh"
#include "cuda/kernels/slots.cuh"
#include "cuda/kernels/tile_merge.h"

namespace sparseagg::gpu {
namespace {

constexpr uint32_t kTileSlots = 4096;
// Phases of a block for tiles and updates, all together, beyond which the sort is faster: in 384
// sweeps 26,000 each, 2.6 ms (model). The product of tiles and updates may be anything else.
constexpr uint64_t kPhasesMax = 10'000'000;
// Sweeps: as many blocks as three on each of 128 multiprocessors, but not of less than this.
constexpr uint64_t kSweepsMax = 384;
constexpr uint64_t kSweepEntriesMin = 4096;
constexpr uint64_t kSamplesPerSweep = 16;
constexpr uint64_t kNoRow = ~uint64_t{0};

struct SampleRows {
  BatchView batch;
  uint64_t samples;
  uint64_t* rows;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint64_t e = i * (batch.nnz / samples) + batch.nnz / samples / 2;
    const UpdateRef& update = batch.updates[SourceOf(batch, e)];
    rows[i] = update.rows[e - update.first];
  }
};

// bounds[s, u] [sweeps + 1, updates]: the first entry of update u that is not below sweep s.
struct FindBounds {
  BatchView batch;
  uint64_t sweeps;
  const uint64_t* samples;  // sorted
  uint64_t num_samples;
  uint32_t* bounds;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint64_t s = i / batch.num_updates;
    const UpdateRef& update = batch.updates[i % batch.num_updates];
    uint64_t bound = 0;
    if (s == sweeps) {
      bound = update.nnz;
    } else if (s > 0) {
      bound = LowerBound(update.rows, update.nnz, samples[s * num_samples / sweeps]);
    }
    bounds[i] = static_cast<uint32_t>(bound);
  }
};

// counts[s]: entries of sweep s, which is as many rows as it may have.
struct CountEntries {
  uint32_t num_updates;
  uint64_t sweeps;
  const uint32_t* bounds;
  uint64_t* counts;  // [sweeps + 1]

  SPARSEAGG_DEVICE void operator()(uint64_t s) const {
    uint64_t count = 0;
    for (uint32_t u = 0; s < sweeps && u < num_updates; ++u) {
      count += bounds[(s + 1) * num_updates + u] - bounds[s * num_updates + u];
    }
    counts[s] = count;
  }
};

template <class V>
struct Sweep {
  static constexpr unsigned kThreads = 256;
  static constexpr uint32_t kWords = kTileSlots / 32;
  struct Shared {
    Int128 slots[kTileSlots];
    uint32_t held[kWords];    // bit r % 32 of word r / 32
    uint32_t next[kThreads];  // the cursor of each group's update, after the tile
    uint64_t next_row;        // the lowest row of all cursors
    uint64_t emitted;
    uint64_t rows;  // of the tile
  };
  struct Local {
    uint64_t begin;  // rows [begin, end) are the tile
    uint64_t end;
  };

  BatchView batch;
  SlotRule rule;
  uint32_t group;          // threads that share an update, a power of two
  const uint32_t* bounds;  // [sweeps + 1, updates]
  uint32_t* cursors;       // [sweeps, updates]
  const uint64_t* first;   // [sweeps + 1]: where each sweep's part of the output begins
  uint64_t* rows;
  Int128* slots;
  uint64_t* counts;  // [sweeps + 1]: rows of each sweep

  template <class Block>
  SPARSEAGG_DEVICE void Run(Block& block) const {
    Shared& shared = block.shared;
    const uint64_t s = block.index;
    block.Each([&](unsigned t, Local&) {
      if (t != 0) return;
      shared.next_row = kNoRow;
      shared.emitted = 0;
    });
    block.Each([&](unsigned t, Local&) {
      for (uint32_t u = t; u < batch.num_updates; u += kThreads) {
        MoveCursor(shared, s, u, bounds[s * batch.num_updates + u]);
      }
    });
    while (shared.next_row != kNoRow) {
      StartTile(block);
      for (uint32_t u = 0; u < batch.num_updates; u += kThreads / group) AddUpdates(block, u);
      EmitTile(block);
    }
    block.Each([&](unsigned t, Local&) {
      if (t == 0) counts[s] = shared.emitted;
      if (t == 0 && s + 1 == block.count) counts[block.count] = 0;
    });
  }

 private:
  SPARSEAGG_DEVICE uint32_t TileRows() const { return kTileSlots / rule.slots(); }

  SPARSEAGG_DEVICE void MoveCursor(Shared& shared, uint64_t s, uint32_t u, uint32_t to) const {
    cursors[s * batch.num_updates + u] = to;
    if (to < bounds[(s + 1) * batch.num_updates + u]) {
      AtomicMin(&shared.next_row, batch.updates[u].rows[to]);
    }
  }

  template <class Block>
  SPARSEAGG_DEVICE void StartTile(Block& block) const {
    Shared& shared = block.shared;
    block.Each([&](unsigned t, Local& local) {
      local.begin = shared.next_row;
      local.end = local.begin + TileRows();
      for (uint32_t i = t; i < kTileSlots; i += kThreads) shared.slots[i] = 0;
      for (uint32_t i = t; i < kWords; i += kThreads) shared.held[i] = 0;
    });
    block.Each([&](unsigned t, Local&) {
      if (t == 0) shared.next_row = kNoRow;
    });
  }

  // The updates from `first_update` on, one for each group of threads.
  template <class Block>
  SPARSEAGG_DEVICE void AddUpdates(Block& block, uint32_t first_update) const {
    Shared& shared = block.shared;
    const uint64_t s = block.index;
    block.Each([&](unsigned t, Local&) { shared.next[t] = ~uint32_t{0}; });
    block.Each([&](unsigned t, Local& local) {
      const uint32_t u = first_update + t / group;
      if (u >= batch.num_updates) return;
      const UpdateRef& update = batch.updates[u];
      const uint32_t end = bounds[(s + 1) * batch.num_updates + u];
      // Each thread takes every group-th entry; the first that none has taken is the new cursor.
      uint32_t e = cursors[s * batch.num_updates + u] + t % group;
      for (; e < end && update.rows[e] < local.end; e += group) {
        AddEntry(shared, update, e, static_cast<uint32_t>(update.rows[e] - local.begin));
      }
      AtomicMin(&shared.next[t / group], e);
    });
    block.Each([&](unsigned t, Local&) {
      const uint32_t u = first_update + t / group;
      if (u >= batch.num_updates || t % group != 0) return;
      const uint32_t end = bounds[(s + 1) * batch.num_updates + u];
      MoveCursor(shared, s, u, shared.next[t / group] < end ? shared.next[t / group] : end);
    });
  }

  SPARSEAGG_DEVICE void AddEntry(Shared& shared, const UpdateRef& update, uint32_t e,
                                 uint32_t r) const {
    Int128* row = shared.slots + r * rule.slots();
    if (rule.value_slots() != 0) {
      const Int128 addend = FixedProduct(ValueAt<V>(update, e, 1, 0), update.weight, rule.lsb);
      if (addend != 0) AtomicAddSlot(&row[0], addend);
    }
    if (rule.row != RowSlot::kNone) {
      AtomicAddSlot(&row[rule.value_slots()], RowAddend(rule, update.weight));
    }
    AtomicOr(&shared.held[r / 32], uint32_t{1} << (r % 32));
  }

  // Thread t lists word t of the bits.
  template <class Block>
  SPARSEAGG_DEVICE void EmitTile(Block& block) const {
    static_assert(kWords <= kThreads);
    Shared& shared = block.shared;
    ScanBlock<kThreads>(
        block,
        [&](unsigned t, Local&) {
          return t < kWords ? static_cast<uint64_t>(PopulationCount(shared.held[t])) : 0;
        },
        [&](unsigned t, Local& local, uint64_t before, uint64_t all) {
          if (t == 0) shared.rows = all;
          if (t >= kWords) return;
          const uint32_t width = rule.slots();
          uint64_t at = first[block.index] + shared.emitted + before;
          for (uint64_t bits = shared.held[t]; bits != 0; bits &= bits - 1, ++at) {
            const uint32_t r = t * 32 + static_cast<uint32_t>(CountTrailingZeros(bits));
            rows[at] = local.begin + r;
            for (uint32_t c = 0; c < width; ++c) {
              slots[at * width + c] = shared.slots[r * width + c];
            }
          }
        });
    block.Each([&](unsigned t, Local&) {
      if (t == 0) shared.emitted += shared.rows;
    });
  }
};

// Moves the sweeps' parts together.
struct MoveTogether {
  uint64_t sweeps;
  uint32_t width;
  const uint64_t* places;  // [sweeps + 1]: rows of the sweeps before
  const uint64_t* first;
  const uint64_t* from_rows;
  const Int128* from_slots;
  uint64_t* rows;
  Int128* slots;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    uint64_t s = 0;
    for (uint64_t high = sweeps; high - s > 1;) {
      const uint64_t middle = s + (high - s) / 2;
      (places[middle] <= i ? s : high) = middle;
    }
    const uint64_t from = first[s] + (i - places[s]);
    rows[i] = from_rows[from];
    for (uint32_t c = 0; c < width; ++c) slots[i * width + c] = from_slots[from * width + c];
  }
};

uint64_t SweepsFor(const BatchView& batch) {
  return std::clamp<uint64_t>(batch.nnz / kSweepEntriesMin, 1, kSweepsMax);
}

// Threads for each update: as many as there are, for few updates.
uint32_t GroupFor(uint32_t num_updates) {
  uint32_t group = 32;
  while (group > 1 && uint64_t{group} * num_updates > 256) group /= 2;
  return group;
}

}  // namespace

bool CanMergeTiles(const BatchView& batch, const SlotRule& rule) {
  const EntryOrder needed =
      rule.row == RowSlot::kNone ? EntryOrder::kSorted : EntryOrder::kCanonical;
  if (batch.width != 1 || rule.extreme() || batch.order < needed) return false;
  // A tile has an entry, and each takes three phases for the updates that 256 threads share.
  const uint64_t tiles = std::min(batch.nnz, batch.num_rows / (kTileSlots / rule.slots()) + 1);
  const uint64_t phases = 3 * (uint64_t{batch.num_updates} * GroupFor(batch.num_updates) / 256 + 1);
  return tiles <= kPhasesMax / phases;
}

Run MergeTiles(Queue& queue, const BatchView& batch, const SlotRule& rule) {
  const uint64_t sweeps = SweepsFor(batch);
  const uint64_t num_samples = std::min(sweeps * kSamplesPerSweep, batch.nnz);
  DeviceArray<uint64_t> samples(queue, num_samples);
  ForEach(queue, num_samples, SampleRows{batch, num_samples, samples.data()});
  SortWords(queue, samples, static_cast<uint32_t>(num_samples), 0, 64);

  DeviceArray<uint32_t> bounds(queue, (sweeps + 1) * batch.num_updates);
  ForEach(queue, bounds.size(),
          FindBounds{batch, sweeps, samples.data(), num_samples, bounds.data()});
  DeviceArray<uint64_t> first(queue, sweeps + 1);
  ForEach(queue, sweeps + 1, CountEntries{batch.num_updates, sweeps, bounds.data(), first.data()});
  ExclusiveSum(queue, first.data(), sweeps + 1);

  DeviceArray<uint32_t> cursors(queue, sweeps * batch.num_updates);
  DeviceArray<uint64_t> rows(queue, batch.nnz);
  DeviceArray<Int128> slots(queue, batch.nnz * rule.slots());
  DeviceArray<uint64_t> places(queue, sweeps + 1);
  WithValueType(rule.type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    ForEachBlock(queue, sweeps,
                 Sweep<V>{batch, rule, GroupFor(batch.num_updates), bounds.data(), cursors.data(),
                          first.data(), rows.data(), slots.data(), places.data()});
  });
  ExclusiveSum(queue, places.data(), sweeps + 1);
  Run run = MakeRun(queue, rule, places.data() + sweeps, std::min(batch.nnz, batch.num_rows));
  ForEach(queue, run.count(), 1,
          MoveTogether{sweeps, rule.slots(), places.data(), first.data(), rows.data(), slots.data(),
                       run.rows.data(), run.slots.data()});
  return run;
}

}  // namespace sparseagg::gpu

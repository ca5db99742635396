// In: sorted entries of a batch. Out: the runs' rows and starts [runs], slots [runs, slots()].
//
// A block of 256 threads takes a tile of 2048 positions, a thread 8 of them in a row. It adds what
// it has before its first run's end ("lead") and after its last run's begin ("tail"); a segmented
// scan over the threads joins tails to leads; runs inside the tile are written by whoever ends
// them. What reaches over the tile's edges becomes two edges of it, its lead and its tail, which a
// scan by run joins: a row that all of 10^8 entries have is 100,000 edges of one run. No atomics;
// min and max work like sums. Bytes: 8 to 12 a position for the words (twice: once to count), a
// gathered sector of 32 for the value, 16 a slot written. Shared memory 6 KB a block. Source: CUB's
// AgentReduceByKey has the same tiles, with a look-back instead of the edges.
#include <algorithm>

#include "cuda/kernels/launch/block_scan.cuh"
#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/launch/scan.h"
#include "cuda/kernels/slots.cuh"
#include "cuda/kernels/sort/sorted_tiles.h"

namespace sparseagg::gpu {
namespace {

constexpr unsigned kTileThreads = 256;
constexpr uint32_t kItems = kTilePositions / kTileThreads;

SPARSEAGG_HOST_DEVICE inline bool IsHead(const SortedEntries& sorted, uint64_t p) {
  return p == 0 || sorted.Row(p - 1) != sorted.Row(p);
}

// Counts the runs that begin in each tile.
struct CountHeads {
  static constexpr unsigned kThreads = kTileThreads;
  struct Shared {
    uint32_t count;
  };
  struct Local {};

  SortedEntries sorted;
  uint64_t* counts;  // [tiles + 1]

  template <class Block>
  SPARSEAGG_DEVICE void Run(Block& block) const {
    Shared& shared = block.shared;
    const uint64_t begin = block.index * kTilePositions;
    block.Each([&](unsigned t, Local&) {
      if (t == 0) shared.count = 0;
    });
    block.Each([&](unsigned t, Local&) {
      uint32_t heads = 0;
      for (uint32_t i = 0; i < kItems; ++i) {  // neighbouring threads, neighbouring positions
        const uint64_t p = begin + i * kTileThreads + t;
        if (p < sorted.size && IsHead(sorted, p)) ++heads;
      }
      if (heads != 0) AtomicAdd(&shared.count, heads);
    });
    block.Each([&](unsigned t, Local&) {
      if (t == 0) counts[block.index] = shared.count;
      if (t == 0 && block.index + 1 == block.count) counts[block.count] = 0;
    });
  }
};

// The positions of one thread.
struct Items {
  uint64_t begin;
  uint64_t end;
};
SPARSEAGG_HOST_DEVICE inline Items ItemsOf(const SortedEntries& sorted, uint64_t tile, unsigned t) {
  const uint64_t begin = tile * kTilePositions + uint64_t{t} * kItems;
  const uint64_t end = begin + kItems;
  return {begin < sorted.size ? begin : sorted.size, end < sorted.size ? end : sorted.size};
}

SPARSEAGG_HOST_DEVICE inline uint64_t HeadsIn(const SortedEntries& sorted, const Items& items) {
  uint64_t heads = 0;
  for (uint64_t p = items.begin; p < items.end; ++p) heads += IsHead(sorted, p) ? 1 : 0;
  return heads;
}

struct WriteRuns {
  static constexpr unsigned kThreads = kTileThreads;
  struct Shared {};
  struct Local {};

  SortedEntries sorted;
  const uint64_t* first;  // [tiles + 1]
  uint64_t* rows;
  uint64_t* starts;

  template <class Block>
  SPARSEAGG_DEVICE void Run(Block& block) const {
    const uint64_t tile = block.index;
    ScanBlock<kThreads>(
        block, [&](unsigned t, Local&) { return HeadsIn(sorted, ItemsOf(sorted, tile, t)); },
        [&](unsigned t, Local&, uint64_t before, uint64_t) {
          const Items items = ItemsOf(sorted, tile, t);
          uint64_t run = first[tile] + before;
          for (uint64_t p = items.begin; p < items.end; ++p) {
            if (!IsHead(sorted, p)) continue;
            rows[run] = sorted.Row(p);
            if (starts != nullptr) starts[run] = p;
            ++run;
          }
        });
  }
};

template <class V>
struct ReduceTile {
  static constexpr unsigned kThreads = kTileThreads;
  struct Shared {
    uint32_t runs[kThreads];    // of the tile that begin before each thread's positions
    Int128 carry[kThreads];     // what a thread leaves to the next one, then the scan of it
    uint32_t closed[kThreads];  // whether a run begins in this thread or one before it in the tile
  };
  struct Local {
    Int128 lead;
    bool has_head;
    bool joins;
    Int128 other;
    uint32_t other_closed;
  };

  SortedBatch<V> batch;
  const uint64_t* first;  // [tiles + 1]
  Int128* slots;          // [runs, slots()]
  Int128* edges;          // [2 * tiles, slots()]: a lead and a tail for each tile

  template <class Block>
  SPARSEAGG_DEVICE void Run(Block& block) const {
    ScanBlock<kThreads>(
        block,
        [&](unsigned t, Local&) {
          return HeadsIn(batch.sorted, ItemsOf(batch.sorted, block.index, t));
        },
        [&](unsigned t, Local&, uint64_t before, uint64_t) {
          block.shared.runs[t] = static_cast<uint32_t>(before);
        });
    for (uint32_t c = 0; c < batch.rule.slots(); ++c) ReduceColumn(block, c);
  }

 private:
  template <class Block>
  SPARSEAGG_DEVICE void ReduceColumn(Block& block, uint32_t c) const {
    Shared& shared = block.shared;
    const SlotRule& rule = batch.rule;
    const uint32_t width = rule.slots();
    const uint64_t tile = block.index;
    block.Each([&](unsigned t, Local& local) {
      const Items items = ItemsOf(batch.sorted, tile, t);
      uint64_t run = first[tile] + shared.runs[t];
      local.has_head = false;
      Int128 sum = rule.Empty(c);
      for (uint64_t p = items.begin; p < items.end; ++p) {
        if (IsHead(batch.sorted, p)) {
          if (local.has_head) {
            slots[run++ * width + c] = sum;
          } else {
            local.lead = sum;
          }
          local.has_head = true;
          sum = rule.Empty(c);
        }
        sum = rule.Join(c, sum, batch.Slot(p, c));
      }
      shared.carry[t] = sum;
      shared.closed[t] = local.has_head ? 1 : 0;
    });
    for (unsigned distance = 1; distance < kThreads; distance *= 2) {
      block.Each([&](unsigned t, Local& local) {
        local.joins = t >= distance && shared.closed[t] == 0;
        if (!local.joins) return;
        local.other = shared.carry[t - distance];
        local.other_closed = shared.closed[t - distance];
      });
      block.Each([&](unsigned t, Local& local) {
        if (!local.joins) return;
        shared.carry[t] = rule.Join(c, local.other, shared.carry[t]);
        shared.closed[t] = local.other_closed;
      });
    }
    block.Each([&](unsigned t, Local& local) {
      if (local.has_head) {
        const bool begins_here = t > 0 && shared.closed[t - 1] != 0;
        const Int128 sum = t == 0 ? local.lead : rule.Join(c, shared.carry[t - 1], local.lead);
        if (begins_here) {
          slots[(first[tile] + shared.runs[t] - 1) * width + c] = sum;
        } else {
          edges[2 * tile * width + c] = sum;
        }
      }
      if (t + 1 == kThreads) {
        // Without a begin of a run the whole tile is its lead.
        const bool closed = shared.closed[t] != 0;
        if (!closed) edges[2 * tile * width + c] = shared.carry[t];
        edges[(2 * tile + 1) * width + c] = closed ? shared.carry[t] : rule.Empty(c);
      }
    });
  }
};

constexpr uint64_t kNoRun = ~uint64_t{0};

// The runs that the edges of each tile are of: the last one that begins before it, and the last one
// that begins before its end. kNoRun for what is before the first.
struct RunsOfEdges {
  const uint64_t* first;  // [tiles + 1]
  uint64_t* runs;         // [2 * tiles]
  SPARSEAGG_DEVICE void operator()(uint64_t edge) const {
    runs[edge] = first[(edge + 1) / 2] - 1;
    static_assert(kNoRun == uint64_t{0} - 1);
  }
};

// The last edge of a run has its sum.
struct WriteEdges {
  uint32_t width;
  uint64_t size;
  const uint64_t* runs;
  const Int128* edges;
  Int128* slots;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint64_t edge = i / width;
    const uint64_t run = runs[edge];
    if (run == kNoRun || (edge + 1 < size && runs[edge + 1] == run)) return;
    slots[run * width + i % width] = edges[i];
  }
};

TiledRuns FindRuns(Queue& queue, const SortedEntries& sorted) {
  TiledRuns runs;
  runs.tiles = (sorted.size + kTilePositions - 1) / kTilePositions;
  runs.first = {queue, runs.tiles + 1};
  ForEachBlock(queue, runs.tiles, CountHeads{sorted, runs.first.data()});
  ExclusiveSum(queue, runs.first.data(), runs.tiles + 1);
  return runs;
}

}  // namespace

SortedRuns SortIntoRuns(Queue& queue, const BatchView& batch, const SlotRule& rule,
                        bool with_starts) {
  SortedRuns all;
  all.sorted = SortEntries(queue, batch);
  all.runs = FindRuns(queue, all.sorted.view);
  all.run = MakeRun(queue, rule, all.runs.first.data() + all.runs.tiles,
                    std::min(batch.nnz, batch.num_rows));
  if (with_starts) all.starts = {queue, all.run.size};
  ForEachBlock(
      queue, all.runs.tiles,
      WriteRuns{all.sorted.view, all.runs.first.data(), all.run.rows.data(), all.starts.data()});
  return all;
}

void ReduceTiles(Queue& queue, const BatchView& batch, const SlotRule& rule,
                 const SortedEntries& sorted, const TiledRuns& runs, Int128* slots) {
  const uint64_t size = 2 * runs.tiles;
  DeviceArray<Int128> edges(queue, size * rule.slots());
  const LongSums long_sums = SumLongRuns(queue, batch, rule, sorted);
  WithValueType(rule.type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    ForEachBlock(
        queue, runs.tiles,
        ReduceTile<V>{
            {batch, rule, sorted, long_sums.keys.data()}, runs.first.data(), slots, edges.data()});
  });
  DeviceArray<uint64_t> runs_of_edges(queue, size);
  ForEach(queue, size, RunsOfEdges{runs.first.data(), runs_of_edges.data()});
  JoinByKey(queue, rule, runs_of_edges.data(), edges.data(), size);
  ForEach(queue, size * rule.slots(),
          WriteEdges{rule.slots(), size, runs_of_edges.data(), edges.data(), slots});
}

}  // namespace sparseagg::gpu

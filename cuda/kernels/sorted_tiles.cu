// In: sorted entries of a batch. Out: the runs' rows and starts [runs], slots [runs, slots()].
//
// A block of 256 threads takes a tile of 2048 positions, a thread 8 of them in a row. It adds what
// it has before its first run's end ("lead") and after its last run's begin ("tail"); a segmented
// scan over the threads joins tails to leads; runs inside the tile are written by whoever ends
// them. What reaches over the tile's edges goes to lead[tile] and tail[tile], and JoinEdges, one
// thread for each run that reaches over an edge, walks the tiles that it covers: a row that all of
// 10^8 entries have is 50,000 steps there. No atomics; min and max work like sums.
// Bytes: 8 to 12 a position for the words (twice: once to count), a gathered sector of 32 for the
// value, 16 a slot written. Shared memory 6 KB a block. Source: CUB's AgentReduceByKey has the same
// tiles, with a look-back instead of JoinEdges.
#include "cuda/kernels/block_scan.cuh"
#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/scan.h"
#include "cuda/kernels/slots.cuh"
#include "cuda/kernels/sorted_tiles.h"

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

SPARSEAGG_HOST_DEVICE inline uint32_t HeadsIn(const SortedEntries& sorted, const Items& items) {
  uint32_t heads = 0;
  for (uint64_t p = items.begin; p < items.end; ++p) heads += IsHead(sorted, p) ? 1 : 0;
  return heads;
}

struct WriteRuns {
  static constexpr unsigned kThreads = kTileThreads;
  struct Shared {
    uint32_t heads[kThreads];
  };
  struct Local {
    uint32_t addend;
  };

  SortedEntries sorted;
  const uint64_t* first;  // [tiles + 1]
  uint64_t* rows;
  uint64_t* starts;

  template <class Block>
  SPARSEAGG_DEVICE void Run(Block& block) const {
    Shared& shared = block.shared;
    const uint64_t tile = block.index;
    block.Each(
        [&](unsigned t, Local&) { shared.heads[t] = HeadsIn(sorted, ItemsOf(sorted, tile, t)); });
    InclusiveSum<kThreads>(block, shared.heads);
    block.Each([&](unsigned t, Local&) {
      const Items items = ItemsOf(sorted, tile, t);
      uint64_t run = first[tile] + (t == 0 ? 0 : shared.heads[t - 1]);
      for (uint64_t p = items.begin; p < items.end; ++p) {
        if (!IsHead(sorted, p)) continue;
        rows[run] = sorted.Row(p);
        starts[run] = p;
        ++run;
      }
    });
  }
};

template <class V>
struct ReduceTile {
  static constexpr unsigned kThreads = kTileThreads;
  struct Shared {
    uint32_t heads[kThreads];
    Int128 carry[kThreads];     // what a thread leaves to the next one, then the scan of it
    uint32_t closed[kThreads];  // whether a run begins in this thread or one before it in the tile
  };
  struct Local {
    uint32_t addend;
    Int128 lead;
    bool has_head;
    bool joins;
    Int128 other;
    uint32_t other_closed;
  };

  SortedBatch<V> batch;
  const uint64_t* first;  // [tiles + 1]
  Int128* slots;          // [runs, slots()]
  Int128* leads;          // [tiles, slots()]
  Int128* tails;          // [tiles, slots()]

  template <class Block>
  SPARSEAGG_DEVICE void Run(Block& block) const {
    Shared& shared = block.shared;
    block.Each([&](unsigned t, Local&) {
      shared.heads[t] = HeadsIn(batch.sorted, ItemsOf(batch.sorted, block.index, t));
    });
    InclusiveSum<kThreads>(block, shared.heads);
    for (uint32_t c = 0; c < batch.rule.slots(); ++c) ReduceColumn(block, c);
  }

 private:
  // The first run that begins in thread t's positions.
  SPARSEAGG_DEVICE uint64_t FirstRun(const Shared& shared, uint64_t tile, unsigned t) const {
    return first[tile] + (t == 0 ? 0 : shared.heads[t - 1]);
  }

  template <class Block>
  SPARSEAGG_DEVICE void ReduceColumn(Block& block, uint32_t c) const {
    Shared& shared = block.shared;
    const SlotRule& rule = batch.rule;
    const uint32_t width = rule.slots();
    const uint64_t tile = block.index;
    block.Each([&](unsigned t, Local& local) {
      const Items items = ItemsOf(batch.sorted, tile, t);
      uint64_t run = FirstRun(shared, tile, t);
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
          slots[(FirstRun(shared, tile, t) - 1) * width + c] = sum;
        } else {
          leads[tile * width + c] = sum;
        }
      }
      if (t + 1 == kThreads) {
        (shared.closed[t] != 0 ? tails : leads)[tile * width + c] = shared.carry[t];
      }
    });
  }
};

// Joins the parts of the runs that are the last of a tile.
struct JoinEdges {
  SlotRule rule;
  uint64_t tiles;
  const uint64_t* first;
  const Int128* leads;
  const Int128* tails;
  Int128* slots;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint32_t width = rule.slots();
    const uint64_t tile = i / width;
    const auto c = static_cast<uint32_t>(i % width);
    if (first[tile + 1] == first[tile]) return;  // no run begins here
    Int128 slot = tails[i];
    for (uint64_t next = tile + 1; next < tiles; ++next) {
      slot = rule.Join(c, slot, leads[next * width + c]);
      if (first[next + 1] != first[next]) break;
    }
    slots[(first[tile + 1] - 1) * width + c] = slot;
  }
};

}  // namespace

TiledRuns FindRuns(Queue& queue, const SortedEntries& sorted) {
  TiledRuns runs;
  runs.tiles = (sorted.size + kTilePositions - 1) / kTilePositions;
  runs.first = {queue, runs.tiles + 1};
  ForEachBlock(queue, runs.tiles, CountHeads{sorted, runs.first.data()});
  ExclusiveSum(queue, runs.first.data(), runs.tiles + 1);
  runs.size = queue.Read(runs.first.data() + runs.tiles);
  return runs;
}

void ListRuns(Queue& queue, const SortedEntries& sorted, const TiledRuns& runs, uint64_t* rows,
              uint64_t* starts) {
  ForEachBlock(queue, runs.tiles, WriteRuns{sorted, runs.first.data(), rows, starts});
}

void ReduceTiles(Queue& queue, const BatchView& batch, const SlotRule& rule,
                 const SortedEntries& sorted, const TiledRuns& runs, Int128* slots) {
  DeviceArray<Int128> leads(queue, runs.tiles * rule.slots());
  DeviceArray<Int128> tails(queue, runs.tiles * rule.slots());
  WithValueType(rule.type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    ForEachBlock(
        queue, runs.tiles,
        ReduceTile<V>{{batch, rule, sorted}, runs.first.data(), slots, leads.data(), tails.data()});
  });
  ForEach(queue, runs.tiles * rule.slots(),
          JoinEdges{rule, runs.tiles, runs.first.data(), leads.data(), tails.data(), slots});
}

}  // namespace sparseagg::gpu

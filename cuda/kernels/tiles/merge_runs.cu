// In: two runs, rows [size] and slots [size, slots()]. Out: a run of at most both sizes.
//
// Merge path (Green, McColl and Bader, GPU Merge Path, 2012; as in cub::DeviceMerge): the merged
// sequence of both runs' rows, equal rows of a before those of b, is cut into tiles of 2048
// positions, and one thread a tile finds by binary search how many of them are a's. A block of 256
// threads loads a tile's rows into shared memory; each thread finds its 8 positions in there and
// merges them. A row that both runs have is written at a's position, with the slots of both joined;
// b's position writes nothing. Where a tile's rows go is known by look-back (look_back.cuh), and
// each thread moves a slot, neighbours to neighbours.
//
// cub::DeviceMerge itself is not called: it takes both sizes from the host, which does not know
// them (slot_run.h), writes equal rows twice, so that another pass would have to join them, and
// moves slots of one or two words only.
//
// Bytes: both runs are read once and the result is written once, 8 + 16 * slots() a row each: 4.8
// GB for 5 * 10^7 and as many rows of one slot, without common ones. Shared memory 24 KB a block.
#include "cuda/kernels/launch/block_scan.cuh"
#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/launch/look_back.cuh"
#include "cuda/kernels/tiles/merge_runs.h"

namespace sparseagg::gpu {
namespace {

struct Input {
  const uint64_t* rows;
  const Int128* slots;
  Count count;
};

// Returns how many of the first `position` rows of the merged sequence are a's.
SPARSEAGG_HOST_DEVICE inline uint64_t SplitAt(const uint64_t* a, uint64_t a_size, const uint64_t* b,
                                              uint64_t b_size, uint64_t position) {
  uint64_t low = position > b_size ? position - b_size : 0;
  uint64_t high = position < a_size ? position : a_size;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (a[middle] <= b[position - 1 - middle]) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

struct FindSplits {
  Input a;
  Input b;
  uint64_t* splits;  // [tiles + 1]

  SPARSEAGG_DEVICE void operator()(uint64_t tile) const {
    const uint64_t position = tile * kMergeTilePositions;
    const uint64_t size = a.count.Get() + b.count.Get();
    splits[tile] =
        SplitAt(a.rows, a.count.Get(), b.rows, b.count.Get(), position < size ? position : size);
  }
};

struct MergeTiles {
  static constexpr unsigned kThreads = 256;
  static constexpr uint32_t kItems = kMergeTilePositions / kThreads;
  struct Shared {
    uint64_t rows[kMergeTilePositions];   // a's, then b's
    uint16_t from[kMergeTilePositions];   // of each row of the result: where in `rows` it is
    uint16_t twins[kMergeTilePositions];  // b's entry of the tile with the same row, or kNoTwin
    LookBackMemory look_back;
    uint64_t tile;
    uint64_t heads;
  };
  struct Local {
    uint32_t a;         // the first of a's rows in the thread's positions
    uint32_t is_twin;   // bit i: position i is b's, of a row that a has
    uint32_t has_twin;  // bit i: position i is a's, of a row that b has
    uint32_t is_b;      // bit i: position i is b's
    uint32_t items;
  };
  // The parts of the two runs that are in a tile.
  struct Part {
    uint64_t a_begin;
    uint64_t b_begin;
    uint32_t a_size;
    uint32_t b_size;
  };
  static constexpr uint16_t kNoTwin = 0xFFFF;
  static_assert(kMergeTilePositions < kNoTwin);

  SlotRule rule;
  Input a;
  Input b;
  const uint64_t* splits;  // [tiles + 1]
  TileStates states;
  RunOutput out;

  template <class Block>
  SPARSEAGG_DEVICE void Run(Block& block) const {
    Shared& shared = block.shared;
    const uint64_t size = a.count.Get() + b.count.Get();
    const uint64_t tiles = (size + kMergeTilePositions - 1) / kMergeTilePositions;
    for (;;) {
      block.Each([&](unsigned t, Local&) {
        if (t == 0) shared.tile = states.TakeTile();
      });
      const uint64_t tile = shared.tile;
      if (tile >= tiles) return;
      const Part part = PartOf(tile, size);
      Load(block, part);
      Merge(block, part);
      List(block, tile, part);
      states.Before(block, tile, shared.heads, shared.look_back);
      Write(block, tile + 1 == tiles, part);
    }
  }

 private:
  SPARSEAGG_DEVICE Part PartOf(uint64_t tile, uint64_t size) const {
    const uint64_t begin = tile * kMergeTilePositions;
    const uint64_t end = begin + kMergeTilePositions < size ? begin + kMergeTilePositions : size;
    const uint64_t a_begin = splits[tile];
    const uint64_t a_end = splits[tile + 1];
    return {a_begin, begin - a_begin, static_cast<uint32_t>(a_end - a_begin),
            static_cast<uint32_t>((end - a_end) - (begin - a_begin))};
  }

  template <class Block>
  SPARSEAGG_DEVICE void Load(Block& block, const Part& part) const {
    Shared& shared = block.shared;
    block.Each([&](unsigned t, Local&) {
      for (uint32_t i = t; i < part.a_size + part.b_size; i += kThreads) {
        shared.rows[i] =
            i < part.a_size ? a.rows[part.a_begin + i] : b.rows[part.b_begin + (i - part.a_size)];
      }
    });
  }

  // What each position of the thread is. Equal rows may stand on both sides of the tile's border.
  template <class Block>
  SPARSEAGG_DEVICE void Merge(Block& block, const Part& part) const {
    Shared& shared = block.shared;
    block.Each([&](unsigned t, Local& local) {
      const uint64_t* a_rows = shared.rows;
      const uint64_t* b_rows = shared.rows + part.a_size;
      const uint32_t positions = part.a_size + part.b_size;
      const uint32_t begin = t * kItems < positions ? t * kItems : positions;
      local = {};
      local.items = positions - begin < kItems ? positions - begin : kItems;
      local.a = static_cast<uint32_t>(SplitAt(a_rows, part.a_size, b_rows, part.b_size, begin));
      uint32_t i = local.a;
      uint32_t j = begin - i;
      for (uint32_t k = 0; k < local.items; ++k) {
        const uint32_t bit = uint32_t{1} << k;
        if (i < part.a_size && (j == part.b_size || a_rows[i] <= b_rows[j])) {
          if (RowOfB(shared, part, j, a_rows[i])) local.has_twin |= bit;
          ++i;
        } else {
          local.is_b |= bit;
          if (RowBefore(shared, part, i, b_rows[j])) local.is_twin |= bit;
          ++j;
        }
      }
    });
  }
  // Whether b's row j of the tile, which may be the first of the next one, is `row`.
  SPARSEAGG_DEVICE bool RowOfB(const Shared& shared, const Part& part, uint32_t j,
                               uint64_t row) const {
    if (j < part.b_size) return shared.rows[part.a_size + j] == row;
    return part.b_begin + j < b.count.Get() && b.rows[part.b_begin + j] == row;
  }
  // Whether a's row before row i of the tile, which may be the last of the tile before, is `row`.
  SPARSEAGG_DEVICE bool RowBefore(const Shared& shared, const Part& part, uint32_t i,
                                  uint64_t row) const {
    if (i > 0) return shared.rows[i - 1] == row;
    return part.a_begin > 0 && a.rows[part.a_begin - 1] == row;
  }

  // Lists the rows of the result, and publishes how many they are.
  template <class Block>
  SPARSEAGG_DEVICE void List(Block& block, uint64_t tile, const Part& part) const {
    Shared& shared = block.shared;
    ScanBlock<kThreads>(
        block,
        [](unsigned, Local& local) {
          return uint64_t{local.items} - static_cast<uint64_t>(PopulationCount(local.is_twin));
        },
        [&](unsigned t, Local& local, uint64_t before, uint64_t all) {
          if (t == 0) {
            shared.heads = all;
            states.Publish(tile, all);
          }
          auto to = static_cast<uint32_t>(before);
          uint32_t i = local.a;
          uint32_t j = t * kItems - i;
          for (uint32_t k = 0; k < local.items; ++k) {
            const uint32_t bit = uint32_t{1} << k;
            const bool is_b = (local.is_b & bit) != 0;
            if ((local.is_twin & bit) == 0) {
              shared.from[to] = static_cast<uint16_t>(is_b ? part.a_size + j : i);
              shared.twins[to] = (local.has_twin & bit) != 0 ? static_cast<uint16_t>(j) : kNoTwin;
              ++to;
            }
            ++(is_b ? j : i);
          }
        });
  }

  template <class Block>
  SPARSEAGG_DEVICE void Write(Block& block, bool is_last, const Part& part) const {
    Shared& shared = block.shared;
    block.Each([&](unsigned t, Local&) {
      const uint64_t first = shared.look_back.before;
      const auto heads = static_cast<uint32_t>(shared.heads);
      if (is_last && t == 0) *out.number = first + heads;
      if (out.rows == nullptr) return;
      const uint32_t width = rule.slots();
      for (uint32_t r = t; r < heads; r += kThreads) {
        out.rows[first + r] = shared.rows[shared.from[r]];
      }
      for (uint32_t s = t; s < heads * width; s += kThreads) {
        const uint32_t r = s / width;
        out.slots[first * width + s] = SlotOf(shared, part, r, s - r * width);
      }
    });
  }
  SPARSEAGG_DEVICE Int128 SlotOf(const Shared& shared, const Part& part, uint32_t r,
                                 uint32_t c) const {
    const uint32_t width = rule.slots();
    const uint32_t from = shared.from[r];
    if (from >= part.a_size) return b.slots[(part.b_begin + (from - part.a_size)) * width + c];
    const Int128 slot = a.slots[(part.a_begin + from) * width + c];
    const uint32_t twin = shared.twins[r];
    if (twin == kNoTwin) return slot;
    return rule.Join(c, slot, b.slots[(part.b_begin + twin) * width + c]);
  }
};

Input InputOf(const SlotRun& run) { return {run.rows.data(), run.slots.data(), run.count()}; }

uint64_t TilesOf(uint64_t positions) {
  return (positions + kMergeTilePositions - 1) / kMergeTilePositions;
}

}  // namespace

uint64_t MergeBytes(const SlotRule& rule, uint64_t a_size, uint64_t b_size) {
  // A split and a state for each tile, and one of each more.
  const uint64_t words = 2 * (TilesOf(a_size + b_size) + 1);
  return RunBytes(rule, a_size + b_size) + words * sizeof(uint64_t);
}

SlotRun MergeRuns(Queue& queue, const SlotRule& rule, const SlotRun& a, const SlotRun& b) {
  const uint64_t tiles = TilesOf(a.size + b.size);
  DeviceArray<uint64_t> splits(queue, tiles + 1);
  ForEach(queue, tiles + 1, FindSplits{InputOf(a), InputOf(b), splits.data()});
  return FillRun(queue, rule, a.size + b.size, [&](const RunOutput& out) {
    const DeviceArray<uint64_t> states = MakeTileStates(queue, tiles);
    ForEachBlock(queue, BlocksFor(tiles),
                 MergeTiles{rule, InputOf(a), InputOf(b), splits.data(), {states.data()}, out});
  });
}

}  // namespace sparseagg::gpu

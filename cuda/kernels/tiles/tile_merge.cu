// In: a batch of sorted updates of scalars. Out: a run, rows [size] and slots [size, slots()].
//
// The index space is cut into tiles of at most 2^15 rows and about as many entries each
// (tile_bounds.h). A block of 512 threads takes tiles by ticket. It lists what each update has in
// the tile as parts of one sequence of positions; each thread loads 8 entries of it into
// registers, all at once, whatever updates they are of, so that an update that has most of the tile
// costs no more than others. The entries set the bits of their rows; held rows are counted and get
// places (tile_sums.cuh); entries are added there with 32-bit atomics; where the tile's rows go is
// known by look-back (look_back.cuh) meanwhile, and they are written to their final place,
// neighbours to neighbours. While a block adds, its next ticket is taken and the parts of that
// tile are loaded. Tiles of more entries, updates or held rows than fit are walked several times.
//
// Bytes: 8 and the value for each entry, once from device memory (neighbouring tiles are worked on
// at the same time, so that sectors of two tiles are read from the second cache); 8 + 16 * slots()
// for each row of the result, once; the bounds of tiles, 4 for each tile and update written and
// read twice. At 10^8 entries of f32 in 10^9 rows, 100 updates: 1.20 GB + 2.28 GB + 0.04 GB, 0.82
// ms at 4.3 TB/s; 30,500 tiles of 3,300 entries. No memory for the worst case but the result's.
// Shared memory 94 KB: two blocks on a multiprocessor of 228 KB. Source: the merge by tiles is the
// sweep of cpu/windowed/sparse_reduction.cc.
#include <algorithm>

#include "cuda/kernels/launch/block_scan.cuh"
#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/launch/look_back.cuh"
#include "cuda/kernels/slots.cuh"
#include "cuda/kernels/tiles/tile_bounds.h"
#include "cuda/kernels/tiles/tile_merge.h"
#include "cuda/kernels/tiles/tile_sums.cuh"

namespace sparseagg::gpu {
namespace {

// Of a tile, on average; where there are fewer a sort is faster.
constexpr uint64_t kTileEntriesMin = 128;
// Of a row; more are walked by one block one after the other, some microseconds for 4096.
constexpr double kRowEntriesMax = 1 << 18;

// The sequence of the entries that up to kUpdates updates have in a tile, 4096 positions at a time.
// A part is what one update has, if it has anything.
template <unsigned kThreads, uint32_t kItems>
struct Segments {
  static constexpr uint32_t kUpdatesOfThread = 2;
  static constexpr uint32_t kUpdates = kThreads * kUpdatesOfThread;
  static constexpr uint32_t kPositions = kThreads * kItems;
  static constexpr uint32_t kWords = kPositions / 32;

  uint32_t starts[kWords];     // bits of the positions where parts begin
  uint16_t before[kWords];     // parts that begin before each word
  uint32_t offsets[kUpdates];  // of each part: from position to entry of the update, modulo 2^32
  uint16_t updates[kUpdates];  // of each part
  uint32_t size;               // positions, of all rounds

  // The state that a thread keeps of its updates.
  struct OfThread {
    uint32_t begin[kUpdatesOfThread];  // entries of the updates
    uint32_t size[kUpdatesOfThread];
    uint32_t part;      // the first of the thread
    uint32_t position;  // where that begins
  };

  SPARSEAGG_DEVICE void Clear(unsigned t) {
    for (uint32_t w = t; w < kWords; w += kThreads) starts[w] = 0;
    if (t == 0) before[0] = 0;
  }

  // Writes the thread's parts, as far as they lie in the positions from `first` on.
  SPARSEAGG_DEVICE void List(unsigned t, const OfThread& mine, uint32_t first) {
    uint32_t part = mine.part;
    uint32_t begin = mine.position;
    for (uint32_t i = 0; i < kUpdatesOfThread; ++i) {
      if (mine.size[i] == 0) continue;
      const uint32_t end = begin + mine.size[i];
      offsets[part] = mine.begin[i] - begin;
      updates[part] = static_cast<uint16_t>(t * kUpdatesOfThread + i);
      ++part;
      if (begin >= first && begin - first < kPositions) {
        AtomicOr(&starts[(begin - first) / 32], uint32_t{1} << begin % 32);
      }
      // The words that begin inside the part or at its end.
      const uint32_t from = begin < first ? first : begin / 32 * 32 + 32;
      for (uint32_t p = from; p <= end && p - first < kPositions; p += 32) {
        before[(p - first) / 32] = static_cast<uint16_t>(part);
      }
      begin = end;
    }
  }

  // The part of position first + i, i < kPositions.
  SPARSEAGG_DEVICE uint32_t At(uint32_t i) const {
    const uint32_t up_to = starts[i / 32] & (~uint32_t{0} >> (31 - i % 32));
    return before[i / 32] + static_cast<uint32_t>(PopulationCount(up_to)) - 1;
  }
};

template <class V>
struct MergeTile {
  static constexpr unsigned kThreads = 512;
  static constexpr unsigned kBlocksOfMultiprocessor = 2;
  static constexpr uint32_t kItems = 8;
  using TileParts = Segments<kThreads, kItems>;
  static constexpr uint32_t kUpdatesOfThread = TileParts::kUpdatesOfThread;
  static constexpr uint32_t kNoItem = ~uint32_t{0};

  // The entries of the thread's updates in a tile.
  struct Bounds {
    uint32_t begin[kUpdatesOfThread];
    uint32_t end[kUpdatesOfThread];
  };
  struct Shared {
    TileSums sums;
    TileParts parts;
    LookBackMemory look_back;
    uint64_t next;  // the tile after this one
  };
  struct Local {
    typename TileParts::OfThread parts;
    uint32_t items[kItems];  // part and row of the tile, or kNoItem
    V values[kItems];
    Bounds next;  // of the next tile
  };

  BatchView batch;
  SlotRule rule;
  Count tiles;
  const uint64_t* tile_rows;  // [tiles]
  const uint32_t* entries;    // [tiles, num_updates]
  TileStates states;
  RunOutput out;

  template <class Block>
  SPARSEAGG_DEVICE void Run(Block& block) const {
    Shared& shared = block.shared;
    block.Each([&](unsigned t, Local&) {
      if (t == 0) shared.next = states.TakeTile();
    });
    block.Each([&](unsigned t, Local& local) { local.next = BoundsOf(t, 0, shared.next); });
    for (uint64_t tile = shared.next; tile < tiles.Get(); tile = shared.next) {
      const bool in_registers = MarkRows(block, tile);
      CountRows(block, tile);
      uint32_t first = 0;
      do {
        if (first != 0) StartPlaces(block, first);
        if (out.rows != nullptr) AddEntries(block, tile, first, in_registers);
        if (first == 0) states.Before(block, tile, shared.sums.num_held, shared.look_back);
        if (out.rows != nullptr) WriteRows(block, tile, first);
        first += TileSums::Capacity(rule);
      } while (first < shared.sums.num_held);
      if (tile + 1 == tiles.Get()) TellNumber(block);
    }
  }

 private:
  // Of updates from `first_update` on, in a tile that need not be there.
  SPARSEAGG_DEVICE Bounds BoundsOf(unsigned t, uint32_t first_update, uint64_t tile) const {
    const uint32_t updates = batch.num_updates;
    const uint64_t all = tiles.Get();
    Bounds bounds{};
    for (uint32_t i = 0; i < kUpdatesOfThread; ++i) {
      const uint32_t u = first_update + t * kUpdatesOfThread + i;
      if (u >= updates || tile >= all) continue;
      bounds.begin[i] = entries[tile * updates + u];
      bounds.end[i] = tile + 1 < all ? entries[(tile + 1) * updates + u]
                                     : static_cast<uint32_t>(batch.updates[u].nnz);
    }
    return bounds;
  }

  // Calls work(t, local, first_update, first) for each 4096 positions of each kUpdates updates,
  // with their entries in registers. They are there when `is_loaded`, in one round. Whether there
  // was one round.
  template <class Block, class Work>
  SPARSEAGG_DEVICE bool WalkTile(Block& block, uint64_t tile, bool is_loaded,
                                 bool bounds_are_loaded, const Work& work) const {
    Shared& shared = block.shared;
    uint32_t rounds = 0;
    for (uint32_t u = 0; u < batch.num_updates; u += TileParts::kUpdates) {
      uint32_t first = 0;
      do {
        if (!is_loaded) {
          ListSegments(block, tile, u, first, bounds_are_loaded && rounds == 0);
        }
        block.Each([&](unsigned t, Local& local) {
          if (!is_loaded) Load(shared, t, tile, u, first, local);
          work(t, local, u, first);
        });
        ++rounds;
        first += TileParts::kPositions;
      } while (first < shared.parts.size);
    }
    return rounds == 1;
  }

  template <class Block>
  SPARSEAGG_DEVICE void ListSegments(Block& block, uint64_t tile, uint32_t first_update,
                                     uint32_t first, bool bounds_are_loaded) const {
    Shared& shared = block.shared;
    constexpr int kSizeBits = 40;
    ScanBlock<kThreads>(
        block,
        [&](unsigned t, Local& local) {
          shared.parts.Clear(t);
          const Bounds bounds = bounds_are_loaded ? local.next : BoundsOf(t, first_update, tile);
          uint64_t sum = 0;
          for (uint32_t i = 0; i < kUpdatesOfThread; ++i) {
            local.parts.begin[i] = bounds.begin[i];
            local.parts.size[i] = bounds.end[i] - bounds.begin[i];
            sum += local.parts.size[i];
            if (local.parts.size[i] != 0) sum += uint64_t{1} << kSizeBits;
          }
          return sum;
        },
        [&](unsigned t, Local& local, uint64_t before, uint64_t all) {
          local.parts.part = static_cast<uint32_t>(before >> kSizeBits);
          local.parts.position = static_cast<uint32_t>(before);
          if (t == 0) shared.parts.size = static_cast<uint32_t>(all);
          shared.parts.List(t, local.parts, first);
        });
  }

  SPARSEAGG_DEVICE void Load(const Shared& shared, unsigned t, uint64_t tile, uint32_t first_update,
                             uint32_t first, Local& local) const {
    const TileParts& parts = shared.parts;
    const uint32_t left = parts.size - first;
    if (left == 0) {
      for (uint32_t& item : local.items) item = kNoItem;
      return;
    }
    // No branch, so that all loads are on their way before the first is waited for.
    uint32_t rows[kItems];
    for (uint32_t i = 0; i < kItems; ++i) {
      const uint32_t p = i * kThreads + t;
      const uint32_t part = parts.At(p < left ? p : left - 1);
      const UpdateRef& update = batch.updates[first_update + parts.updates[part]];
      const uint32_t e = first + (p < left ? p : left - 1) + parts.offsets[part];
      rows[i] = static_cast<uint32_t>(LoadConstant(&update.rows[e]));
      if (rule.value_slots() != 0) {
        local.values[i] = LoadConstant(&static_cast<const V*>(update.values)[e]);
      }
      local.items[i] = part;
    }
    const auto first_row = static_cast<uint32_t>(tile_rows[tile]);
    for (uint32_t i = 0; i < kItems; ++i) {
      const uint32_t item = local.items[i] * TileSums::kRows + (rows[i] - first_row);
      local.items[i] = i * kThreads + t < left ? item : kNoItem;
    }
  }

  // Sets the bits of the tile's rows, and takes the next tile. Whether all entries are in
  // registers.
  template <class Block>
  SPARSEAGG_DEVICE bool MarkRows(Block& block, uint64_t tile) const {
    Shared& shared = block.shared;
    block.Each([&](unsigned t, Local&) { shared.sums.Clear(t, kThreads); });
    return WalkTile(block, tile, false, true,
                    [&](unsigned t, Local& local, uint32_t first_update, uint32_t first) {
                      if (t == 0 && first_update == 0 && first == 0)
                        shared.next = states.TakeTile();
                      for (uint32_t i = 0; i < kItems; ++i) {
                        if (local.items[i] != kNoItem)
                          shared.sums.Hold(local.items[i] % TileSums::kRows);
                      }
                    });
  }

  // Gives places to held rows, tells how many they are, and loads the bounds of the next tile.
  template <class Block>
  SPARSEAGG_DEVICE void CountRows(Block& block, uint64_t tile) const {
    Shared& shared = block.shared;
    shared.sums.template Rank<kThreads>(block, rule,
                                        [&](unsigned t, Local& local, uint32_t num_held) {
                                          if (t == 0) states.Publish(tile, num_held);
                                          local.next = BoundsOf(t, 0, shared.next);
                                        });
  }

  template <class Block>
  SPARSEAGG_DEVICE void StartPlaces(Block& block, uint32_t first_held) const {
    Shared& shared = block.shared;
    block.Each([&](unsigned t, Local&) {
      shared.sums.template Start<kThreads>(t, rule, first_held, shared.sums.num_held);
    });
  }

  // Adds the entries of the rows that have places, those from held row `first_held` on.
  template <class Block>
  SPARSEAGG_DEVICE void AddEntries(Block& block, uint64_t tile, uint32_t first_held,
                                   bool in_registers) const {
    Shared& shared = block.shared;
    WalkTile(block, tile, in_registers, false,
             [&](unsigned, Local& local, uint32_t first_update, uint32_t) {
               for (uint32_t i = 0; i < kItems; ++i) {
                 if (local.items[i] != kNoItem) {
                   AddItem(shared, first_update, first_held, local.items[i], local.values[i]);
                 }
               }
             });
  }

  SPARSEAGG_DEVICE void AddItem(Shared& shared, uint32_t first_update, uint32_t first_held,
                                uint32_t item, V value) const {
    const uint32_t place = shared.sums.PlaceOf(item % TileSums::kRows, first_held);
    if (place >= TileSums::Capacity(rule)) return;
    const uint32_t part = item / TileSums::kRows;
    const float weight = batch.updates[first_update + shared.parts.updates[part]].weight;
    const uint32_t slot = place * rule.slots();
    if (rule.value_slots() != 0) shared.sums.Add(slot, FixedProduct(value, weight, rule.lsb));
    if (rule.row != RowSlot::kNone) {
      shared.sums.Add(slot + rule.value_slots(), RowAddend(rule, weight));
    }
  }

  // Writes the rows that have places.
  template <class Block>
  SPARSEAGG_DEVICE void WriteRows(Block& block, uint64_t tile, uint32_t first_held) const {
    Shared& shared = block.shared;
    block.Each([&](unsigned t, Local&) {
      const uint64_t before = shared.look_back.before;
      shared.sums.template Write<kThreads>(t, rule, first_held, tile_rows[tile], out.rows + before,
                                           out.slots + before * rule.slots());
    });
  }

  // After the last tile.
  template <class Block>
  SPARSEAGG_DEVICE void TellNumber(Block& block) const {
    Shared& shared = block.shared;
    block.Each([&](unsigned t, Local&) {
      if (t == 0) *out.number = shared.look_back.before + shared.sums.num_held;
    });
  }
};

TileShape ShapeFor(const BatchView& batch, const SlotRule& rule) {
  // So that a tile with some entries more than the samples say still has places.
  constexpr uint64_t kSlotsMeant = 4096;
  static_assert(kSlotsMeant + 8 * kEntriesOfSample <= TileSums::kSlots);
  constexpr uint64_t kSamples = kSlotsMeant / kEntriesOfSample;
  if (batch.nnz < batch.num_rows) return {TileSums::kRows, kSamples / rule.slots()};
  // Where rows have several entries each, a tile of as many rows as there are places may have more
  // of them, in several rounds, while there are tiles for every block.
  constexpr uint64_t kTilesMeant = 2048;
  const uint64_t samples =
      std::clamp(batch.nnz / kEntriesOfSample / kTilesMeant, kSamples, 8 * kSamples);
  return {kSlotsMeant / rule.slots(), samples / rule.slots()};
}

}  // namespace

bool CanMergeTiles(const BatchView& batch, const SlotRule& rule) {
  const EntryOrder needed =
      rule.row == RowSlot::kNone ? EntryOrder::kSorted : EntryOrder::kCanonical;
  if (batch.width != 1 || rule.extreme() || batch.order < needed) return false;
  if (batch.hottest_share * static_cast<double>(batch.nnz) > kRowEntriesMax) return false;
  const uint64_t tiles = TilesMost(batch, ShapeFor(batch, rule));
  return tiles <= batch.nnz / batch.num_updates && tiles <= batch.nnz / kTileEntriesMin + 1;
}

SlotRun MergeTiles(Queue& queue, const BatchView& batch, const SlotRule& rule) {
  const TileBounds bounds = CutIntoTiles(queue, batch, ShapeFor(batch, rule));
  const uint64_t most = bounds.tiles().most;
  return FillRun(queue, rule, std::min(batch.nnz, batch.num_rows), [&](const RunOutput& out) {
    const DeviceArray<uint64_t> states = MakeTileStates(queue, most);
    WithValueType(rule.type, [&](auto tag) {
      using V = typename decltype(tag)::type;
      static_assert(sizeof(typename MergeTile<V>::Shared) <= TileSums::kSharedMax);
      ForEachBlock(queue, BlocksFor(most),
                   MergeTile<V>{batch,
                                rule,
                                bounds.tiles(),
                                bounds.rows.data(),
                                bounds.entries.data(),
                                {states.data()},
                                out});
    });
  });
}

}  // namespace sparseagg::gpu

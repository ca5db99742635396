// Where a tile's part of an output begins, while other tiles are still being counted: decoupled
// look-back (Merrill and Garland, Single-pass Parallel Prefix Scan with Decoupled Look-back, 2016).
//
// A tile publishes its own size as soon as it knows it, then adds up the sizes of the tiles before
// it, back to the nearest one that has published the sum of all up to itself, and publishes that
// sum of its own. Tiles are taken by ticket (TakeTile), so a block that waits for a tile waits for
// one that a running block has taken before: the lowest tile that is not done waits for nobody. A
// block may take its next ticket while it works on a tile: it comes to it without waiting for any
// tile behind it.
#ifndef SPARSEAGG_CUDA_KERNELS_LAUNCH_LOOK_BACK_CUH_
#define SPARSEAGG_CUDA_KERNELS_LAUNCH_LOOK_BACK_CUH_

#include <cstdint>

#include "cuda/kernels/launch/launch.cuh"
#include "cuda/raii/queue.h"

namespace sparseagg::gpu {

// Shared memory of a look-back.
struct LookBackMemory {
  uint64_t before;  // the result
  uint64_t next;    // tiles that are still to be added: [0, next)
  uint64_t window[32];
};

// The tickets of a kernel and what its tiles have published, in device memory.
struct TileStates {
  static constexpr uint64_t kOfTile = 1;  // the state is the tile's own size, times four
  static constexpr uint64_t kOfAll = 2;   // the state is the size of all tiles up to it
  static constexpr uint64_t kKinds = 4;

  uint64_t* words;  // [1 + tiles]: the next ticket, then a state for each tile; 0 at first

  SPARSEAGG_DEVICE uint64_t* At(uint64_t tile) const { return words + 1 + tile; }

  // Returns a tile that no other block takes. One thread of the block calls it.
  SPARSEAGG_DEVICE uint64_t TakeTile() const { return AtomicAdd(words, uint64_t{1}); }

  // Publishes the size of a tile. One thread of the block calls it, before Before().
  SPARSEAGG_DEVICE void Publish(uint64_t tile, uint64_t size) const {
    StoreRelaxed(At(tile), size * kKinds + kOfTile);
  }

  // One phase of the block: memory.before becomes the size of all tiles before `tile`, which has
  // been published with `size`.
  template <class Block>
  SPARSEAGG_DEVICE void Before(Block& block, uint64_t tile, uint64_t size,
                               LookBackMemory& memory) const {
    block.EachWarp([&](auto& warp) {
      if (warp.index != 0) return;
      warp.Each([&](unsigned lane, auto&) {
        if (lane != 0) return;
        memory.before = 0;
        memory.next = tile;
      });
      while (memory.next != 0) {
        warp.Each([&](unsigned lane, auto&) {
          if (lane < memory.next) memory.window[lane] = AwaitNonZero(At(memory.next - 1 - lane));
        });
        warp.Each([&](unsigned lane, auto&) {
          if (lane == 0) AddWindow(memory);
        });
      }
      warp.Each([&](unsigned lane, auto&) {
        if (lane == 0) StoreRelaxed(At(tile), (memory.before + size) * kKinds + kOfAll);
      });
    });
  }

 private:
  SPARSEAGG_DEVICE static void AddWindow(LookBackMemory& memory) {
    uint64_t next = memory.next;
    for (unsigned i = 0; i < 32 && next != 0; ++i) {
      const uint64_t state = memory.window[i];
      memory.before += state / kKinds;
      next = state % kKinds == kOfAll ? 0 : next - 1;
    }
    memory.next = next;
  }
};

// Returns tickets and states for `tiles` tiles, cleared.
inline DeviceArray<uint64_t> MakeTileStates(Queue& queue, uint64_t tiles) {
  DeviceArray<uint64_t> words(queue, 1 + tiles);
  queue.Fill(words.data(), 0, words.size());
  return words;
}

// Enough blocks for any device; each takes tiles until there are none.
inline uint64_t BlocksFor(uint64_t tiles) {
  constexpr uint64_t kBlocksMax = 1024;
  return tiles < kBlocksMax ? tiles : kBlocksMax;
}

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_LAUNCH_LOOK_BACK_CUH_

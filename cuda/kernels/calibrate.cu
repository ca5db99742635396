// Out: numbers [size], or sums in table [size], or nothing.
//
// One thread a number or add; in shared memory blocks of 512 threads with the slots of a tile of
// tile_merge.cu, so that as many are on a multiprocessor, and 64 adds a thread.
#include "cuda/kernels/calibrate.h"
#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/sort/hash.h"
#include "cuda/kernels/tiles/tile_sums.cuh"

namespace sparseagg::gpu {
namespace {

struct FillRandom {
  uint64_t* numbers;
  SPARSEAGG_DEVICE void operator()(uint64_t i) const { numbers[i] = Hash(i); }
};

struct AddRandom {
  uint64_t* table;
  uint64_t size;
  SPARSEAGG_DEVICE void operator()(uint64_t i) const { AtomicAdd(&table[Hash(i) & (size - 1)], i); }
};

struct AddShared {
  static constexpr unsigned kThreads = 512;
  static constexpr uint64_t kAddsOfThread = 64;
  static constexpr uint64_t kAdds = kThreads * kAddsOfThread;  // of a block
  using Shared = TileSums;
  struct Local {};

  template <class Block>
  SPARSEAGG_DEVICE void Run(Block& block) const {
    Shared& sums = block.shared;
    block.Each([&](unsigned t, Local&) {
      for (uint32_t i = t; i < TileSums::kSlots; i += kThreads) {
        for (auto& limb : sums.limbs) limb[i] = 0;
      }
    });
    block.Each([&](unsigned t, Local&) {
      const uint64_t first = (block.index * kThreads + t) * kAddsOfThread;
      for (uint64_t i = first; i < first + kAddsOfThread; ++i) {
        const uint64_t hash = Hash(i);
        const Int128 addend = static_cast<Int128>(static_cast<int64_t>(hash)) << 20;
        sums.Add(static_cast<uint32_t>(hash % TileSums::kSlots), addend);
      }
    });
  }
};

struct Nothing {
  SPARSEAGG_DEVICE void operator()(uint64_t) const {}
};

}  // namespace

void FillAtRandom(Queue& queue, uint64_t* numbers, uint64_t size) {
  ForEach(queue, size, FillRandom{numbers});
}

void AddAtRandom(Queue& queue, uint64_t* table, uint64_t size, uint64_t adds) {
  ForEach(queue, adds, AddRandom{table, size});
}

uint64_t AddInShared(Queue& queue, uint64_t adds) {
  const uint64_t blocks = (adds + AddShared::kAdds - 1) / AddShared::kAdds;
  ForEachBlock(queue, blocks, AddShared());
  return blocks * AddShared::kAdds;
}

void LaunchOnly(Queue& queue) { ForEach(queue, 1, Nothing()); }

}  // namespace sparseagg::gpu

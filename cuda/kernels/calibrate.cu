// Out: numbers [size], or sums in table [size], or nothing.
//
// One thread a number or add; in shared memory a block of 256 threads with the 64 KB of a tile of
// tile_merge.cu, so that as many blocks are on a multiprocessor, and 64 adds of two words a thread.
#include "cuda/kernels/calibrate.h"
#include "cuda/kernels/hash.h"
#include "cuda/kernels/launch.cuh"

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
  static constexpr unsigned kThreads = 256;
  static constexpr uint64_t kSlots = 4096;
  static constexpr uint64_t kSlotsOfThread = 64;
  static constexpr uint64_t kAdds = kThreads * kSlotsOfThread * 2;  // of a block
  struct Shared {
    Int128 slots[kSlots];
  };
  struct Local {};

  template <class Block>
  SPARSEAGG_DEVICE void Run(Block& block) const {
    Shared& shared = block.shared;
    block.Each([&](unsigned t, Local&) {
      for (uint64_t i = t; i < kSlots; i += kThreads) shared.slots[i] = 0;
    });
    block.Each([&](unsigned t, Local&) {
      const uint64_t first = (block.index * kThreads + t) * kSlotsOfThread;
      for (uint64_t i = first; i < first + kSlotsOfThread; ++i) {
        const uint64_t hash = Hash(i);
        AtomicAddSlot(&shared.slots[hash % kSlots], -static_cast<Int128>(hash));
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

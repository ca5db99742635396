// The look-back over what earlier tiles have published, on the fake GPU: blocks run one after the
// other there, so states that tiles of other blocks would leave half-way are written by the test.
#include "cuda/kernels/launch/look_back.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "cuda/kernels/launch/block_scan.cuh"
#include "cuda/kernels/launch/launch.cuh"

namespace sparseagg::gpu {
namespace {

constexpr unsigned kBlockThreads = 64;

struct LookOnce {
  static constexpr unsigned kThreads = kBlockThreads;
  struct Shared {
    LookBackMemory memory;
  };
  struct Local {};
  TileStates states;
  uint64_t tile;
  uint64_t size;
  uint64_t* before;

  template <class Block>
  SPARSEAGG_DEVICE void Run(Block& block) const {
    block.Each([&](unsigned t, Local&) {
      if (t == 0) states.Publish(tile, size);
    });
    states.Before(block, tile, size, block.shared.memory);
    block.Each([&](unsigned t, Local&) { before[t] = block.shared.memory.before; });
  }
};

// Takes tiles by ticket; tile i has i % 7 elements.
struct TakeAll {
  static constexpr unsigned kThreads = kBlockThreads;
  struct Shared {
    LookBackMemory memory;
    uint64_t tile;
  };
  struct Local {};
  TileStates states;
  uint64_t tiles;
  uint64_t* before;  // [tiles]

  template <class Block>
  SPARSEAGG_DEVICE void Run(Block& block) const {
    auto& shared = block.shared;
    for (;;) {
      block.Each([&](unsigned t, Local&) {
        if (t == 0) shared.tile = states.TakeTile();
      });
      const uint64_t tile = shared.tile;
      if (tile >= tiles) return;
      block.Each([&](unsigned t, Local&) {
        if (t == 0) states.Publish(tile, tile % 7);
      });
      states.Before(block, tile, tile % 7, shared.memory);
      block.Each([&](unsigned t, Local&) {
        if (t == 0) before[tile] = shared.memory.before;
      });
    }
  }
};

struct SumThreads {
  static constexpr unsigned kThreads = kBlockThreads;
  struct Shared {};
  struct Local {
    uint64_t number;
  };
  uint64_t* before;  // [kThreads + 1], the last: of all

  template <class Block>
  SPARSEAGG_DEVICE void Run(Block& block) const {
    block.Each([](unsigned t, Local& local) { local.number = uint64_t{t} << 40; });
    ScanBlock<kThreads>(
        block, [](unsigned, Local& local) { return local.number; },
        [&](unsigned t, Local&, uint64_t sum, uint64_t all) {
          before[t] = sum;
          if (t == 5) before[kThreads] = all;
        });
  }
};

class LookBackTest : public ::testing::Test {
 protected:
  // Tile `all` has published the sum of everything up to it, those behind it their own sizes: tile
  // i has 10 * i + 1.
  uint64_t Before(uint64_t tile, uint64_t all) {
    const auto size = [](uint64_t i) { return 10 * i + 1; };
    std::vector<uint64_t> words(2 + tile);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < tile; ++i) {
      sum += size(i);
      words[1 + i] = i > all ? size(i) * TileStates::kKinds + TileStates::kOfTile
                             : sum * TileStates::kKinds + TileStates::kOfAll;
    }
    DeviceArray<uint64_t> states(queue_, words.size());
    queue_.UploadPageable(states.data(), words.data(), words.size());
    DeviceArray<uint64_t> before(queue_, kBlockThreads);
    ForEachBlock(queue_, 1, LookOnce{{states.data()}, tile, size(tile), before.data()});
    std::vector<uint64_t> got(kBlockThreads);
    queue_.ReadInto(got.data(), before.data(), got.size());
    EXPECT_EQ(got, std::vector<uint64_t>(kBlockThreads, got[0])) << "every thread";
    EXPECT_EQ(got[0], sum) << "tile " << tile << ", tile " << all << " has published all";
    EXPECT_EQ(queue_.Read(states.data() + 1 + tile),
              (sum + size(tile)) * TileStates::kKinds + TileStates::kOfAll);
    return got[0];
  }

  MemoryPool pool_{0, uint64_t{1} << 20};
  Queue queue_{pool_};
};

TEST_F(LookBackTest, GoesBackToTheNearestTileThatHasPublishedTheSumOfAll) {
  for (const uint64_t tile : {1, 2, 31, 32, 33, 64, 65, 100}) {
    for (uint64_t all = 0; all < tile; ++all) Before(tile, all);
  }
}

TEST_F(LookBackTest, NothingIsBeforeTheFirstTile) { EXPECT_EQ(Before(0, 0), 0u); }

TEST_F(LookBackTest, EveryTileIsTakenOnceByHoweverManyBlocks) {
  constexpr uint64_t kTiles = 150;
  std::vector<uint64_t> expected(kTiles);
  for (uint64_t i = 1; i < kTiles; ++i) expected[i] = expected[i - 1] + (i - 1) % 7;
  for (const uint64_t blocks : {1, 2, 300}) {
    const DeviceArray<uint64_t> states = MakeTileStates(queue_, kTiles);
    DeviceArray<uint64_t> before(queue_, kTiles);
    ForEachBlock(queue_, blocks, TakeAll{{states.data()}, kTiles, before.data()});
    std::vector<uint64_t> got(kTiles);
    queue_.ReadInto(got.data(), before.data(), kTiles);
    EXPECT_EQ(got, expected) << blocks << " blocks";
    EXPECT_EQ(queue_.Read(states.data()), kTiles + blocks) << "a ticket too many for each block";
  }
}

TEST_F(LookBackTest, AScanSumsTheThreadsBefore) {
  DeviceArray<uint64_t> before(queue_, kBlockThreads + 1);
  ForEachBlock(queue_, 1, SumThreads{before.data()});
  std::vector<uint64_t> got(kBlockThreads + 1);
  queue_.ReadInto(got.data(), before.data(), got.size());
  for (uint64_t t = 0; t <= kBlockThreads; ++t) {
    EXPECT_EQ(got[t], (t == 0 ? 0 : t * (t - 1) / 2) << 40) << t;
  }
}

// A tile that waits for one that nobody has taken.
TEST(LookBackDeathTest, AWaitForATileThatHasNotRunEndsTheEmulation) {
  const uint64_t state = 0;
  EXPECT_DEATH(AwaitNonZero(&state), "waits for one that has not run");
}

}  // namespace
}  // namespace sparseagg::gpu

// Sorted updates are merged as std::map would merge them, at the borders of tiles, rounds and
// places. The GPU is fake.
#include "cuda/kernels/tiles/tile_merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/tiles/tile_sums.cuh"
#include "tests/cuda/host_batch.h"

namespace sparseagg::gpu {
namespace {

constexpr uint64_t kSpan = TileSums::kRows;
// With memory in plenty, and with so little that rows are counted first.
void ExpectMerged(const SlotRule& rule, uint64_t num_rows, const std::vector<HostUpdate>& updates) {
  const Sums expected = Expected(rule, updates);
  for (const bool plenty : {true, false}) {
    uint64_t nnz = 0;
    for (const HostUpdate& update : updates) nnz += update.rows.size();
    const uint64_t run_bytes = RunBytes(rule, std::min(nnz, num_rows));
    MemoryPool pool(0, plenty ? uint64_t{1} << 30 : 3 * run_bytes + 24 * nnz + 100'000);
    Queue queue(pool);
    const DeviceBatch batch = Upload(queue, num_rows, updates);
    ASSERT_TRUE(CanMergeTiles(batch.view, rule));
    SlotRun run = MergeTiles(queue, batch.view, rule);
    EXPECT_TRUE(Fetch(queue, rule, run) == expected)
        << updates.size() << " updates, " << nnz << " entries, " << num_rows << " rows, "
        << rule.slots() << " slots, memory in plenty: " << plenty;
  }
}

TEST(TileMerge, RowsOnBothSidesOfASpansBorder) {
  std::mt19937_64 random(1);
  for (const uint64_t num_rows : {kSpan - 1, kSpan, kSpan + 1, 3 * kSpan, 3 * kSpan + 1}) {
    std::vector<uint64_t> rows;
    for (uint64_t span = 0; span <= 3 * kSpan; span += kSpan) {
      for (const uint64_t row : {span - 1, span, span + 1}) {
        if (row < num_rows) rows.push_back(row);
      }
    }
    rows.push_back(num_rows - 1);
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    const HostUpdate others = UpdateOf(Distinct(700, num_rows, random), random);
    for (const SlotRule& rule : {kSum, kSumAndCount, kCount}) {
      ExpectMerged(rule, num_rows, {UpdateOf(rows, random), UpdateOf(rows, random), others});
    }
  }
}

TEST(TileMerge, OneRow) {
  std::mt19937_64 random(2);
  ExpectMerged(kSumAndCount, 1, {UpdateOf({0}, random)});
  std::vector<HostUpdate> updates;
  for (int u = 0; u < 1000; ++u) updates.push_back(UpdateOf({0, 1, 2}, random));
  ExpectMerged(kSumAndCount, 3, updates);
}

// Of one update a segment is longer than a round's 4096 positions.
TEST(TileMerge, EntriesOfATileAtTheBordersOfRounds) {
  std::mt19937_64 random(3);
  for (const uint64_t size : {4095u, 4096u, 4097u, 4160u, 8191u, 8192u, 8193u, 40'000u}) {
    for (const uint64_t step : {uint64_t{1}, uint64_t{3}}) {
      ExpectMerged(kSum, 3 * size, {UpdateOf(Every(step, 0, size), random)});
      ExpectMerged(kSumAndCount, 3 * size + 5,
                   {UpdateOf(Every(step, 1, size), random), UpdateOf(Every(step, 0, 65), random)});
    }
  }
}

TEST(TileMerge, UpdatesAtTheBordersOfABlocksThreads) {
  std::mt19937_64 random(4);
  for (const uint32_t updates : {1u, 2u, 511u, 512u, 513u, 1023u, 1024u, 1025u, 2049u}) {
    std::vector<HostUpdate> all;
    for (uint32_t u = 0; u < updates; ++u) {
      all.push_back(UpdateOf(Distinct(5 + random() % 19, 5000, random), random));
    }
    ExpectMerged(kSum, 5000, all);
    ExpectMerged(kSum, 30'000, all);
    if (updates < 2000) ExpectMerged(kSumAndCount, 30'000, all);  // otherwise too many tiles
  }
}

// Samples are every 64th entry: of 64 entries of an update the 33rd.
TEST(TileMerge, ATileOfWhichThereIsNoSampleHasMoreRowsThanPlaces) {
  std::mt19937_64 random(5);
  for (const SlotRule& rule : {kSum, kSumAndCount}) {
    std::vector<HostUpdate> updates;
    for (uint64_t u = 0; u < 600; ++u) {
      std::vector<uint64_t> rows = Every(600, u, 32);
      const std::vector<uint64_t> sampled = Distinct(32, kSpan, random);
      for (const uint64_t row : sampled) rows.push_back(6 * kSpan + row);
      updates.push_back(UpdateOf(std::move(rows), random));
    }
    ExpectMerged(rule, 8 * kSpan, updates);
  }
}

TEST(TileMerge, OneUpdateHasMostOfATileThatOthersHaveLittleOf) {
  std::mt19937_64 random(6);
  std::vector<HostUpdate> updates = {UpdateOf(Every(1, 100, 9000), random)};
  for (int u = 0; u < 200; ++u) updates.push_back(UpdateOf(Distinct(3, 9999, random), random));
  for (const SlotRule& rule : {kSum, kSumAndCount, kCount}) ExpectMerged(rule, 10'000, updates);
}

TEST(TileMerge, AnUpdateHasARowManyTimes) {
  std::mt19937_64 random(7);
  std::vector<uint64_t> rows(10'000, 77);
  rows.insert(rows.begin(), {3, 3, 5, 76});
  rows.insert(rows.end(), {78, 78, 900});
  ExpectMerged(kSum, 1000, {UpdateOf(rows, random), UpdateOf({77, 77, 77}, random)});
}

TEST(TileMerge, RowsHaveManyEntriesEach) {
  std::mt19937_64 random(10);
  std::vector<HostUpdate> updates;
  for (int u = 0; u < 30; ++u) updates.push_back(UpdateOf(Distinct(7000, 9000, random), random));
  for (const SlotRule& rule : {kSum, kSumAndCount}) ExpectMerged(rule, 9000, updates);
}

TEST(TileMerge, MostSpansAreEmpty) {
  std::mt19937_64 random(8);
  std::vector<HostUpdate> updates;
  for (int u = 0; u < 10; ++u) {
    std::vector<uint64_t> rows = Distinct(1500, 9000, random);
    for (uint64_t& row : rows) row += row < 4000 ? 0 : 40 * kSpan;
    updates.push_back(UpdateOf(std::move(rows), random));
  }
  ExpectMerged(kSumAndCount, 100 * kSpan, updates);
}

// Adds of every thread to few slots, in whatever order.
struct AddAll {
  static constexpr unsigned kThreads = 64;
  using Shared = TileSums;
  struct Local {};
  const Int128* addends;
  uint32_t size;
  uint32_t slots;
  Int128* sums;

  template <class Block>
  SPARSEAGG_DEVICE void Run(Block& block) const {
    block.Each([&](unsigned t, Local&) {
      for (auto& limb : block.shared.limbs) {
        if (t < slots) limb[t] = 0;
      }
    });
    block.Each([&](unsigned t, Local&) {
      for (uint32_t i = t; i < size; i += kThreads) block.shared.Add(i % slots, addends[i]);
    });
    block.Each([&](unsigned t, Local&) {
      if (t < slots) sums[t] = block.shared.Slot(t);
    });
  }
};

TEST(TileSums, CarriesGoThroughEveryWord) {
  constexpr uint32_t kSlots = 7;
  std::mt19937_64 random(9);
  std::vector<Int128> addends;
  for (int k = 0; k < 127; ++k) {
    const auto power = static_cast<Int128>(static_cast<UInt128>(1) << k);
    for (const Int128 addend : {power, -power, power - 1, 1 - power, ~power}) {
      addends.push_back(addend);
    }
  }
  for (int i = 0; i < 5000; ++i) {
    const auto low = static_cast<Int128>(static_cast<int64_t>(random()));
    addends.push_back((low >> random() % 64) * (Int128{1} << random() % 65));
  }
  std::shuffle(addends.begin(), addends.end(), random);
  std::vector<UInt128> expected(kSlots);
  for (size_t i = 0; i < addends.size(); ++i) {
    expected[i % kSlots] += static_cast<UInt128>(addends[i]);
  }
  MemoryPool pool(0, uint64_t{1} << 20);
  Queue queue(pool);
  DeviceArray<Int128> from(queue, addends.size());
  DeviceArray<Int128> to(queue, kSlots);
  queue.UploadPageable(from.data(), addends.data(), addends.size());
  ForEachBlock(queue, 1,
               AddAll{from.data(), static_cast<uint32_t>(addends.size()), kSlots, to.data()});
  std::vector<Int128> sums(kSlots);
  queue.ReadInto(sums.data(), to.data(), kSlots);
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    EXPECT_TRUE(static_cast<UInt128>(sums[slot]) == expected[slot]) << slot;
  }
}

}  // namespace
}  // namespace sparseagg::gpu

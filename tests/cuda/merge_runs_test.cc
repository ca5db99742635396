// Runs are merged as std::map would merge them, whatever stands where tiles end. The GPU is fake.
#include "cuda/kernels/tiles/merge_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace sparseagg::gpu {
namespace {

using HostRun = std::map<uint64_t, std::vector<Int128>>;

// Whose number of rows the host knows, or only the device, which has room for more.
SlotRun Upload(Queue& queue, const SlotRule& rule, const HostRun& from, bool counted) {
  std::vector<uint64_t> rows;
  std::vector<Int128> slots;
  for (const auto& [row, of_row] : from) {
    rows.push_back(row);
    slots.insert(slots.end(), of_row.begin(), of_row.end());
  }
  const uint64_t most = counted ? rows.size() : 2 * rows.size() + 77;
  SlotRun run{{queue, most}, {queue, most * rule.slots()}, most};
  queue.UploadPageable(run.rows.data(), rows.data(), rows.size());
  queue.UploadPageable(run.slots.data(), slots.data(), slots.size());
  if (counted) return run;
  const uint64_t number = rows.size();
  run.number = {queue, 1};
  queue.UploadPageable(run.number.data(), &number, 1);
  return run;
}

HostRun Fetch(Queue& queue, const SlotRule& rule, SlotRun& run) {
  CountRows(queue, run);
  std::vector<uint64_t> rows(run.size);
  std::vector<Int128> slots(run.size * rule.slots());
  queue.ReadInto(rows.data(), run.rows.data(), rows.size());
  queue.ReadInto(slots.data(), run.slots.data(), slots.size());
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  HostRun fetched;
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto at = slots.begin() + static_cast<std::ptrdiff_t>(r * rule.slots());
    const bool is_new = fetched.try_emplace(rows[r], at, at + rule.slots()).second;
    EXPECT_TRUE(is_new) << "row " << rows[r] << " twice";
  }
  return fetched;
}

HostRun Expected(const SlotRule& rule, const HostRun& a, const HostRun& b) {
  HostRun joined = a;
  for (const auto& [row, slots] : b) {
    const auto [at, is_new] = joined.try_emplace(row, slots);
    for (uint32_t c = 0; !is_new && c < rule.slots(); ++c) {
      at->second[c] = rule.Join(c, at->second[c], slots[c]);
    }
  }
  return joined;
}

HostRun RunOf(const SlotRule& rule, const std::vector<uint64_t>& rows, uint64_t seed) {
  std::mt19937_64 random(seed);
  HostRun run;
  for (const uint64_t row : rows) {
    std::vector<Int128>& slots = run[row];
    slots.clear();
    for (uint32_t c = 0; c < rule.slots(); ++c) {
      slots.push_back((static_cast<Int128>(static_cast<int64_t>(random())) << 40) + c);
    }
  }
  return run;
}

// With memory in plenty, and with so little that rows are counted first.
void ExpectMerged(const SlotRule& rule, const std::vector<uint64_t>& a_rows,
                  const std::vector<uint64_t>& b_rows) {
  const HostRun a = RunOf(rule, a_rows, 1);
  const HostRun b = RunOf(rule, b_rows, 2);
  const HostRun expected = Expected(rule, a, b);
  const uint64_t both = RunBytes(rule, a.size() + b.size());
  for (const uint64_t budget : {uint64_t{1} << 30, 5 * both + 20000}) {
    for (const bool counted : {true, false}) {
      MemoryPool pool(0, budget);
      Queue queue(pool);
      const SlotRun device_a = Upload(queue, rule, a, true);
      const SlotRun device_b = Upload(queue, rule, b, counted);
      const uint64_t before = pool.used_bytes();
      SlotRun merged = MergeRuns(queue, rule, device_a, device_b);
      EXPECT_LE(pool.used_bytes() - before, MergeBytes(rule, a.size(), device_b.size) + 8);
      EXPECT_TRUE(Fetch(queue, rule, merged) == expected)
          << a.size() << " and " << b.size() << " rows of " << rule.slots() << " slots, budget "
          << budget << ", counted " << counted;
    }
  }
}

std::vector<uint64_t> Every(uint64_t step, uint64_t first, uint64_t size) {
  std::vector<uint64_t> rows(size);
  for (uint64_t i = 0; i < size; ++i) rows[i] = first + i * step;
  return rows;
}

const SlotRule kOne{};
const SlotRule kTwo{.row = RowSlot::kOne};

TEST(MergeRuns, SizesWhereTilesEnd) {
  for (const uint64_t tiles : {1, 2, 3}) {
    for (const uint64_t more : {0, 1, 2}) {  // one less, as many, one more
      const uint64_t size = tiles * kMergeTilePositions - 1 + more;
      for (const uint64_t of_b : {uint64_t{1}, size / 2, size - 1}) {
        ExpectMerged(kOne, Every(2, 0, size - of_b), Every(2, 1, of_b));
      }
    }
  }
}

// Pairs of equal rows stand at every place of a tile, also on both sides of its border.
TEST(MergeRuns, EqualRowsAreJoinedOnceWhereverTheyStand) {
  for (uint64_t shift = 0; shift < 3; ++shift) {
    std::vector<uint64_t> b = Every(1, shift, kMergeTilePositions + 5);
    ExpectMerged(kOne, Every(1, 1, kMergeTilePositions + 5), b);
    ExpectMerged(kTwo, Every(1, 1, kMergeTilePositions + 5), b);
    ExpectMerged(kOne, Every(1, 0, 3 * kMergeTilePositions), {kMergeTilePositions - shift});
    ExpectMerged(kOne, {kMergeTilePositions - shift}, Every(1, 0, 3 * kMergeTilePositions));
  }
}

TEST(MergeRuns, OneRunBehindTheOther) {
  ExpectMerged(kOne, Every(1, 0, 3000), Every(1, 3000, 5000));
  ExpectMerged(kOne, Every(1, 5000, 3000), Every(1, 0, 5000));
  ExpectMerged(kOne, Every(1, 0, 3000), Every(1, 2999, 5000));
}

TEST(MergeRuns, RandomRowsOfAllKindsOfSlots) {
  std::mt19937_64 random(5);
  for (const uint64_t rows : {uint64_t{3000}, uint64_t{20'000}, ~uint64_t{0} >> 1}) {
    const auto sample = [&](size_t size) {
      std::vector<uint64_t> sampled(size);
      for (uint64_t& row : sampled) row = random() % rows;
      return sampled;
    };
    for (const SlotRule& rule :
         {kOne, kTwo, SlotRule{.values = ValueSlots::kMin}, SlotRule{.values = ValueSlots::kMax},
          SlotRule{.row = RowSlot::kOne, .width = 64}}) {
      const size_t size = rule.width == 1 ? 7001 : 700;
      ExpectMerged(rule, sample(size), sample(2 * size));
    }
  }
}

}  // namespace
}  // namespace sparseagg::gpu

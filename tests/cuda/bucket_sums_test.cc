// Unsorted scalars are summed as std::map would sum them, at the borders of spans, rounds and
// places, and in spans of more entries than one block sums. The GPU is fake.
#include "cuda/kernels/sort/bucket_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "tests/cuda/host_batch.h"

namespace sparseagg::gpu {
namespace {

// With memory in plenty, and with so little that rows are counted first; with the number of entries
// of the longest update known or not.
void ExpectSummed(const SlotRule& rule, uint64_t num_rows, std::vector<HostUpdate> updates,
                  std::mt19937_64& random) {
  uint64_t nnz = 0;
  uint64_t nnz_max = 0;
  for (HostUpdate& update : updates) {
    std::shuffle(update.rows.begin(), update.rows.end(), random);
    nnz += update.rows.size();
    nnz_max = std::max<uint64_t>(nnz_max, update.rows.size());
  }
  const Sums expected = Expected(rule, updates);
  const uint64_t run_bytes = RunBytes(rule, std::min(nnz, num_rows));
  for (const bool plenty : {true, false}) {
    MemoryPool pool(0, plenty ? uint64_t{1} << 31 : 3 * run_bytes + 80 * nnz + 3'000'000);
    Queue queue(pool);
    DeviceBatch batch = Upload(queue, num_rows, updates);
    if (plenty) batch.view.update_nnz_max = nnz_max;
    ASSERT_TRUE(CanSumBuckets(batch.view, rule));
    SlotRun run = SumBuckets(queue, batch.view, rule);
    EXPECT_TRUE(Fetch(queue, rule, run) == expected)
        << updates.size() << " updates, " << nnz << " entries, " << num_rows << " rows, "
        << rule.slots() << " slots, memory in plenty: " << plenty;
  }
}

std::vector<uint64_t> Repeated(std::vector<uint64_t> rows, uint64_t times) {
  const size_t size = rows.size();
  for (uint64_t i = 1; i < times; ++i) {
    rows.insert(rows.end(), rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(size));
  }
  return rows;
}

TEST(BucketSums, RowsOnBothSidesOfASpansBorder) {
  std::mt19937_64 random(1);
  for (const uint64_t num_rows : {1u, 2u, 31u, 32u, 33u, 32767u, 32768u, 32769u, 100'000u}) {
    std::vector<uint64_t> rows = {0, num_rows - 1};
    for (uint64_t border = 1; border < num_rows; border *= 2) {
      rows.insert(rows.end(), {border - 1, border});
    }
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    const HostUpdate others =
        UpdateOf(Distinct(std::min<uint64_t>(5000, num_rows / 2 + 1), num_rows, random), random);
    for (const SlotRule& rule : {kSum, kSumAndCount, kCount}) {
      ExpectSummed(rule, num_rows, {UpdateOf(rows, random), UpdateOf(rows, random), others},
                   random);
    }
  }
}

TEST(BucketSums, EntriesOfASpanAtTheBordersOfRounds) {
  std::mt19937_64 random(2);
  for (const uint64_t size : {4095u, 4096u, 4097u, 8191u, 8192u, 8193u}) {
    for (const SlotRule& rule : {kSum, kSumAndCount}) {
      ExpectSummed(rule, 3 * size, {UpdateOf(Distinct(size, 3 * size, random), random)}, random);
    }
  }
}

TEST(BucketSums, EveryLengthOfTheSortedPart) {
  std::mt19937_64 random(3);
  for (uint64_t rows = 100; rows < 3'000'000; rows *= 7) {
    std::vector<HostUpdate> updates;
    for (int u = 0; u < 20; ++u) {
      updates.push_back(
          UpdateOf(Distinct(std::min<uint64_t>(rows / 2, 6000), rows, random), random));
    }
    for (const SlotRule& rule : {kSum, kSumAndCount}) ExpectSummed(rule, rows, updates, random);
  }
}

TEST(BucketSums, AnUpdateHasARowManyTimes) {
  std::mt19937_64 random(4);
  ExpectSummed(kSum, 5000,
               {UpdateOf(Repeated(Every(7, 3, 500), 12), random),
                UpdateOf(Repeated({4999}, 10'000), random)},
               random);
}

// More held rows than places in a span of fewer entries than heavy ones have.
TEST(BucketSums, ASpanHasMoreRowsThanPlaces) {
  std::mt19937_64 random(5);
  for (const SlotRule& rule : {kSum, kSumAndCount}) {
    ExpectSummed(rule, uint64_t{1} << 20,
                 {UpdateOf(Distinct(20'000, 32'768, random), random),
                  UpdateOf(Distinct(30'000, uint64_t{1} << 20, random), random)},
                 random);
  }
}

// Almost all entries are in a few spans of a large index space, which several blocks sum.
TEST(BucketSums, HeavySpans) {
  std::mt19937_64 random(6);
  constexpr uint64_t kRows = uint64_t{1} << 22;
  for (const SlotRule& rule : {kSum, kSumAndCount}) {
    for (const uint64_t of_span : {uint64_t{2}, uint64_t{3000}, uint64_t{20'000}}) {
      std::vector<HostUpdate> updates;
      for (uint64_t entries = 0; entries < 4 * kHeavyEntries; entries += of_span) {
        std::vector<uint64_t> rows = Distinct(of_span, of_span + of_span / 2, random);
        const uint64_t first = entries < 2 * kHeavyEntries ? 777 : kRows - 32'768;
        for (uint64_t& row : rows) row += first;
        updates.push_back(UpdateOf(std::move(rows), random));
        if (of_span == 2 && updates.size() > 3000) break;
      }
      updates.push_back(UpdateOf(Distinct(9000, kRows, random), random));
      if (of_span == 2) {  // and one row has most of them
        const SlotRule sums = kSum;
        updates.push_back(UpdateOf(Repeated({3'999'999}, 3 * kHeavyEntries + 5), random));
        ExpectSummed(sums, kRows, std::move(updates), random);
      } else {
        ExpectSummed(rule, kRows, std::move(updates), random);
      }
    }
  }
}

// A span of as many entries as are not heavy, of one more, and heavy spans side by side.
TEST(BucketSums, AtTheBorderOfHeavySpans) {
  std::mt19937_64 random(7);
  for (const uint64_t more : {0u, 1u, 2u}) {
    std::vector<uint64_t> rows = Repeated({5}, kHeavyEntries - 1 + more);
    const std::vector<uint64_t> next = Repeated({100'000}, kHeavyEntries + more);
    rows.insert(rows.end(), next.begin(), next.end());
    const std::vector<uint64_t> last = Repeated({140'000, 140'001}, kHeavyEntries);
    rows.insert(rows.end(), last.begin(), last.end());
    ExpectSummed(kSum, 1'000'000, {UpdateOf(std::move(rows), random)}, random);
  }
}

TEST(CanSumBuckets, NotWhereUpdatesHaveRowsTwiceThatCountOnce) {
  BatchView batch{.num_updates = 10,
                  .nnz = 100'000,
                  .num_rows = 100'000,
                  .width = 1,
                  .order = EntryOrder::kUnsorted};
  EXPECT_TRUE(CanSumBuckets(batch, kSum));
  EXPECT_FALSE(CanSumBuckets(batch, kSumAndCount));
  EXPECT_FALSE(CanSumBuckets(batch, {.values = ValueSlots::kMin}));
  batch.order = EntryOrder::kCanonical;
  EXPECT_TRUE(CanSumBuckets(batch, kSumAndCount));
  batch.width = 2;
  EXPECT_FALSE(CanSumBuckets(batch, {.width = 2}));
}

TEST(CanSumBuckets, NotWhereWordsOrSpansAreTooMany) {
  BatchView batch{.num_updates = 1000,
                  .nnz = 100'000'000,
                  .num_rows = 1'000'000'000,
                  .width = 1,
                  .order = EntryOrder::kUnsorted};
  EXPECT_FALSE(CanSumBuckets(batch, kSum)) << "30, 10 and 27 bits";
  batch.update_nnz_max = 100'000;
  EXPECT_TRUE(CanSumBuckets(batch, kSum)) << "30, 10 and 17 bits";
  batch.num_rows = uint64_t{1} << 36;
  EXPECT_FALSE(CanSumBuckets(batch, kSum)) << "spans of 48 entries on average";
}

}  // namespace
}  // namespace sparseagg::gpu

#include "cpu/windowed/canonical.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "sparse/ops/all.h"
#include "sparse/validate.h"
#include "sparse/values.h"
#include "sparse/wide_integer.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {
namespace {

constexpr float kWeight = 2.5f;

template <class V>
PendingUpdate MakePending(const ReduceSpec& spec, const std::vector<uint64_t>& rows,
                          const std::vector<V>& values) {
  PendingUpdate update;
  update.staged = *StageOnHeap(spec.layout, rows.size());
  std::memcpy(update.staged.entries.rows.wide(), rows.data(), rows.size() * sizeof(uint64_t));
  std::memcpy(update.staged.entries.values, values.data(), values.size() * sizeof(V));
  update.staged.order = OrderOf(rows.data(), rows.size());
  update.weight = kWeight;
  return update;
}

// An entry of a cursor: its row and its values.
template <class V>
using Entry = std::pair<uint64_t, std::vector<V>>;

template <class V>
std::vector<Entry<V>> EntriesOf(const Cursor& cursor, uint32_t width) {
  std::vector<Entry<V>> entries;
  const auto* values = reinterpret_cast<const V*>(cursor.value);
  for (size_t i = 0; i < cursor.size(); ++i) {
    entries.push_back({cursor.row[i], {values + i * width, values + (i + 1) * width}});
  }
  return entries;
}

// Random rows, many of which repeat; every value is a different number.
struct Drawn {
  std::vector<uint64_t> rows;
  std::vector<float> values;
};
Drawn Draw(uint64_t nnz, uint32_t width, uint64_t spacing, uint64_t seed) {
  std::mt19937_64 random(seed);
  Drawn drawn;
  for (uint64_t i = 0; i < nnz; ++i) drawn.rows.push_back(random() % (nnz / 2 + 1) * spacing);
  for (uint64_t i = 0; i < nnz * width; ++i) drawn.values.push_back(static_cast<float>(i + 1));
  return drawn;
}

// With the last spacing, a row's distance and an entry's position do not fit one key.
constexpr uint64_t kSpacings[] = {1, 1000, uint64_t{1} << 50};

TEST(IsReady, SaysWhatTheOrderOfTheRowsAllows) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 100, 1);
  const PendingUpdate canonical = MakePending<float>(spec, {1, 5, 7}, {1, 2, 3});
  const PendingUpdate sorted = MakePending<float>(spec, {1, 5, 5}, {1, 2, 3});
  const PendingUpdate unsorted = MakePending<float>(spec, {5, 1, 5}, {1, 2, 3});
  for (const PendingUpdate* update : {&canonical, &sorted, &unsorted}) {
    EXPECT_TRUE(IsReady(*update, Need::kAny));
    EXPECT_EQ(IsReady(*update, Need::kSorted), update != &unsorted);
    EXPECT_EQ(IsReady(*update, Need::kUniqueRows), update == &canonical);
  }
}

TEST(CursorOf, PointsIntoTheUpdate) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 100, 2);
  const PendingUpdate canonical = MakePending<float>(spec, {1, 5, 7}, {1, 2, 3, 4, 5, 6});
  const PendingUpdate unsorted = MakePending<float>(spec, {5, 1, 5}, {1, 2, 3, 4, 5, 6});
  for (const PendingUpdate* update : {&canonical, &unsorted}) {
    const Cursor cursor = CursorOf(*update);
    EXPECT_EQ(cursor.row, update->staged.entries.rows.wide());
    EXPECT_EQ(cursor.size(), 3u);
    EXPECT_EQ(static_cast<const void*>(cursor.value), update->staged.entries.values);
    EXPECT_EQ(cursor.weight, kWeight);
    EXPECT_EQ(cursor.weights, nullptr);
    EXPECT_EQ(cursor.canonical, update == &canonical);
  }
}

TEST(PrepareUpdates, CopiesOnlyWhatIsNotReadyAndFindsTheOrder) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 100, 1);
  std::vector<PendingUpdate> batch;
  batch.push_back(MakePending<float>(spec, {1, 5, 7}, {1, 2, 3}));
  batch.push_back(MakePending<float>(spec, {5, 1, 5}, {1, 2, 3}));
  batch.push_back(MakePending<float>(spec, {1, 5, 5}, {1, 2, 3}));
  for (PendingUpdate& update : batch) update.staged.order = EntryOrder::kUnknown;
  Parallel parallel(2);
  const std::vector<Prepared> prepared = PrepareUpdates(spec, Need::kSorted, parallel, batch);
  EXPECT_EQ(batch[0].staged.order, EntryOrder::kCanonical);
  EXPECT_EQ(batch[1].staged.order, EntryOrder::kUnsorted);
  EXPECT_EQ(batch[2].staged.order, EntryOrder::kSorted);
  ASSERT_EQ(prepared.size(), 3u);
  EXPECT_TRUE(prepared[0].cursors.empty());
  ASSERT_EQ(prepared[1].cursors.size(), 1u);
  EXPECT_EQ(std::vector(prepared[1].cursors[0].row, prepared[1].cursors[0].end),
            (std::vector<uint64_t>{1, 5, 5}));
  EXPECT_TRUE(prepared[2].cursors.empty());
}

TEST(PrepareUpdate, SortedHasAllEntriesInOrder) {
  for (uint32_t width : {1u, 3u}) {
    for (uint64_t nnz : {1u, 2u, 3000u}) {
      for (uint64_t spacing : kSpacings) {
        const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, kNumRowsMax - 1, width);
        const Drawn drawn = Draw(nnz, width, spacing, nnz);
        PendingUpdate update = MakePending<float>(spec, drawn.rows, drawn.values);
        update.staged.order = EntryOrder::kUnsorted;  // also where there is one entry
        const Prepared prepared = PrepareUpdate(spec, update, Need::kSorted);
        ASSERT_EQ(prepared.cursors.size(), 1u);
        const Cursor& cursor = prepared.cursors[0];
        EXPECT_EQ(cursor.weight, kWeight);
        EXPECT_FALSE(cursor.canonical);
        EXPECT_TRUE(std::is_sorted(cursor.row, cursor.end));
        std::vector<Entry<float>> actual = EntriesOf<float>(cursor, width);
        std::vector<Entry<float>> expected;
        for (size_t i = 0; i < drawn.rows.size(); ++i) {
          expected.push_back(
              {drawn.rows[i],
               {drawn.values.begin() + i * width, drawn.values.begin() + (i + 1) * width}});
        }
        std::sort(actual.begin(), actual.end());
        std::sort(expected.begin(), expected.end());
        EXPECT_EQ(actual, expected) << "width " << width << " nnz " << nnz;
      }
    }
  }
}

// One cursor has the first entry of each row, the other has the rest; together they have the whole
// update.
TEST(PrepareUpdate, MeanOfContributorsMarksAllButOneEntryOfARow) {
  for (uint32_t width : {1u, 3u}) {
    for (uint64_t spacing : kSpacings) {
      const ReduceSpec spec =
          MakeSpec("mean_of_contributors", ValueType::kF32, kNumRowsMax - 1, width);
      const Drawn drawn = Draw(3000, width, spacing, 7);
      const PendingUpdate update = MakePending<float>(spec, drawn.rows, drawn.values);
      const Prepared prepared = PrepareUpdate(spec, update, Need::kUniqueRows);
      ASSERT_EQ(prepared.cursors.size(), 2u);
      const Cursor& first = prepared.cursors[0];
      const Cursor& rest = prepared.cursors[1];
      EXPECT_EQ(first.weight, kWeight);
      EXPECT_TRUE(first.canonical);
      EXPECT_TRUE(std::is_sorted(first.row, first.end, std::less_equal<>()));
      EXPECT_EQ(std::vector(first.row, first.end).size(),
                std::set<uint64_t>(drawn.rows.begin(), drawn.rows.end()).size());
      EXPECT_EQ(rest.weight, -kWeight);
      EXPECT_FALSE(rest.canonical);
      EXPECT_TRUE(std::is_sorted(rest.row, rest.end));
      // Values identify entries: none is lost, and none appears twice.
      std::map<float, uint64_t> actual;
      for (const Cursor& cursor : prepared.cursors) {
        for (const auto& [row, values] : EntriesOf<float>(cursor, width)) {
          for (float value : values) EXPECT_TRUE(actual.emplace(value, row).second) << value;
        }
      }
      ASSERT_EQ(actual.size(), drawn.values.size());
      for (size_t i = 0; i < drawn.values.size(); ++i) {
        EXPECT_EQ(actual.at(drawn.values[i]), drawn.rows[i / width]);
      }
    }
  }
}

// The weight becomes -0, so only its sign bit marks the entries.
TEST(PrepareUpdate, AZeroWeightIsMarkedToo) {
  const ReduceSpec spec = MakeSpec("mean_of_contributors", ValueType::kF32, 100, 1);
  PendingUpdate update = MakePending<float>(spec, {5, 1, 5}, {1, 2, 3});
  update.weight = 0.0f;
  const Prepared prepared = PrepareUpdate(spec, update, Need::kUniqueRows);
  ASSERT_EQ(prepared.cursors.size(), 2u);
  EXPECT_FALSE(std::signbit(prepared.cursors[0].weight));
  EXPECT_TRUE(std::signbit(prepared.cursors[1].weight));
  EXPECT_EQ(prepared.cursors[1].size(), 1u);
}

TEST(PrepareUpdate, WithoutDuplicatesThereIsNothingToMark) {
  for (std::string_view op : {"mean_of_contributors", "count", "min", "max"}) {
    const ReduceSpec spec = MakeSpec(std::string(op), ValueType::kF32, 100, 1);
    const PendingUpdate update = MakePending<float>(spec, {5, 1, 9}, {1, 2, 3});
    const Prepared prepared = PrepareUpdate(spec, update, Need::kUniqueRows);
    ASSERT_EQ(prepared.cursors.size(), 1u) << op;
    EXPECT_TRUE(prepared.cursors[0].canonical);
    EXPECT_EQ(EntriesOf<float>(prepared.cursors[0], 1),
              (std::vector<Entry<float>>{{1, {2}}, {5, {1}}, {9, {3}}}));
  }
}

TEST(PrepareUpdate, CountKeepsOneEntryOfEachRow) {
  const ReduceSpec spec = MakeSpec("count", ValueType::kF32, 100, 1);
  const PendingUpdate update = MakePending<float>(spec, {5, 1, 5, 5, 0, 1}, {1, 2, 3, 4, 5, 6});
  const Prepared prepared = PrepareUpdate(spec, update, Need::kUniqueRows);
  ASSERT_EQ(prepared.cursors.size(), 1u);
  const Cursor& cursor = prepared.cursors[0];
  EXPECT_EQ(std::vector(cursor.row, cursor.end), (std::vector<uint64_t>{0, 1, 5}));
  EXPECT_EQ(cursor.weight, kWeight);
  EXPECT_TRUE(cursor.canonical);
}

template <class V>
class PrepareExtremes : public ::testing::Test {};
using FloatingTypes = ::testing::Types<F16, BF16, float, double>;
TYPED_TEST_SUITE(PrepareExtremes, FloatingTypes);

// Duplicates are summed exactly, even where they cancel, and rounded once.
TYPED_TEST(PrepareExtremes, DuplicatesAreSummedAndRoundedOnce) {
  using V = TypeParam;
  using Traits = ValueTraits<V>;
  constexpr uint32_t kWidth = 2;
  std::mt19937_64 random(1);
  for (const char* op : {"min", "max"}) {
    for (Values kind : kAllValues) {
      const ReduceSpec spec = MakeSpec(op, Traits::kType, kNumRowsMax - 1, kWidth);
      std::vector<uint64_t> rows;
      for (int i = 0; i < 500; ++i) rows.push_back(random() % 100);
      const std::vector<std::byte> bytes = MakeValues(spec, rows.size() * kWidth, kind, random);
      std::vector<V> values(rows.size() * kWidth);
      std::memcpy(values.data(), bytes.data(), bytes.size());
      std::map<uint64_t, std::array<WideInteger, kWidth>> sums;
      for (size_t i = 0; i < values.size(); ++i) {
        sums[rows[i / kWidth]][i % kWidth].Add(Widen(values[i]));
      }
      const PendingUpdate update = MakePending<V>(spec, rows, values);
      const Prepared prepared = PrepareUpdate(spec, update, Need::kUniqueRows);
      ASSERT_EQ(prepared.cursors.size(), 1u);
      EXPECT_TRUE(prepared.cursors[0].canonical);
      const std::vector<Entry<V>> entries = EntriesOf<V>(prepared.cursors[0], kWidth);
      ASSERT_EQ(entries.size(), sums.size());
      size_t i = 0;
      for (const auto& [row, sum] : sums) {
        EXPECT_EQ(entries[i].first, row);
        for (uint32_t c = 0; c < kWidth; ++c) {
          // +0 and -0 are the same extreme.
          EXPECT_EQ(Widen(entries[i].second[c]), sum[c].Round(Traits::kFormat))
              << op << " row " << row << " values " << static_cast<int>(kind);
        }
        ++i;
      }
    }
  }
}

TEST(PrepareUpdate, DuplicatesOfModularIntegersWrap) {
  ReduceSpec spec = MakeSpec("max", ValueType::kI32, 100, 1);
  spec.integer_overflow = IntegerOverflow::kModular;
  const int32_t largest = std::numeric_limits<int32_t>::max();
  const PendingUpdate update = MakePending<int32_t>(spec, {3, 3, 2}, {largest, 2, 9});
  const Prepared prepared = PrepareUpdate(spec, update, Need::kUniqueRows);
  ASSERT_EQ(prepared.cursors.size(), 1u);
  EXPECT_EQ(
      EntriesOf<int32_t>(prepared.cursors[0], 1),
      (std::vector<Entry<int32_t>>{{2, {9}}, {3, {std::numeric_limits<int32_t>::min() + 1}}}));
}

}  // namespace
}  // namespace sparseagg::testing

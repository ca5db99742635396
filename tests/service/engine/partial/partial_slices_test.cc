// Ranges of rows, and the partial aggregates that are cut out of a whole one by them.
#include "service/engine/partial/partial_slices.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/partial/round_partial.h"
#include "sparse/reference_backend.h"
#include "sparse/validate.h"
#include "tests/support/workload.h"

namespace sparseagg {
namespace {

constexpr uint64_t kSlice = uint64_t{1} << 16;

TensorSpec Sparse(std::string name, uint64_t rows) {
  return {.name = std::move(name), .dense_shape = {static_cast<int64_t>(rows)}, .sparse_dim = 1};
}

std::string Joined(const PartialSlices& cut) {
  std::string bytes;
  while (bytes.size() < cut.size()) bytes += cut.Piece(bytes.size(), 1000);
  return bytes;
}

// Rows of the test's tensors, each with the value 1.
RoundPartial StateOf(const std::vector<TensorSpec>& specs,
                     const std::vector<std::vector<uint64_t>>& rows) {
  const auto backend = MakeReferenceBackend({});
  RoundPartial partial;
  partial.specs = specs;
  for (size_t i = 0; i < specs.size(); ++i) {
    const ReduceSpec spec = *MakeReduceSpec(specs[i]);
    const auto aggregator = testing::NewAggregator(**backend, spec);
    testing::Update update;
    update.rows = rows[i];
    update.values.assign(rows[i].size() * spec.layout.row_bytes(), std::byte{0});
    StagedUpdate staged = testing::StageCopy(*aggregator, update);
    staged.order = *ValidateUpdate(spec, staged.entries.view(), 1.0f);
    EXPECT_TRUE(aggregator->Accumulate(std::move(staged), 1.0f).ok());
    partial.tensors.push_back(*aggregator->Snapshot());
    partial.entries.push_back(rows[i].size());
  }
  partial.named = true;
  partial.covered = {{.contributor = "phone", .update_id = "u", .digest = std::string(32, 'd')}};
  return partial;
}

// --- Ranges ---

TEST(RowRangeTest, PartsCoverEveryRowOnceAndHaveAboutTheSameBytes) {
  const std::vector<TensorSpec> specs = {Sparse("a", 40 * kSlice + 5), Sparse("b", 100),
                                         Sparse("c", 20 * kSlice)};
  for (const size_t parts : {1, 2, 3, 8, 50}) {
    const auto ranges = CutRows(specs, parts);
    ASSERT_TRUE(ranges.ok());
    ASSERT_EQ(ranges->size(), parts);
    RowPosition end;
    for (const RowRange& range : *ranges) {
      EXPECT_EQ(range.first, end);
      EXPECT_LT(range.first, range.end);
      EXPECT_TRUE(CheckRowRange(range, specs).ok());
      uint64_t rows = 0;
      for (size_t i = 0; i < specs.size(); ++i) {
        const auto [first, last] = RowsOf(range, i, specs[i].dense_shape[0]);
        rows += last - first;
      }
      EXPECT_NEAR(static_cast<double>(rows), 60.0 * kSlice / parts, 1.1 * kSlice) << parts;
      end = range.end;
    }
    EXPECT_EQ(end, (RowPosition{3, 0}));
  }
}

TEST(RowRangeTest, FewSlicesMakeFewParts) {
  EXPECT_EQ(CutRows(std::vector<TensorSpec>{Sparse("a", 10)}, 8)->size(), 1u);
  EXPECT_EQ(CutRows(std::vector<TensorSpec>{Sparse("a", 3 * kSlice)}, 8)->size(), 3u);
  EXPECT_TRUE(CutRows(std::vector<TensorSpec>{Sparse("a", 10)}, 0)->empty());
}

TEST(RowRangeTest, RefusesRangesThatAreNotBetweenSlices) {
  const std::vector<TensorSpec> specs = {Sparse("a", 3 * kSlice)};
  EXPECT_TRUE(CheckRowRange(kNoRows, specs).ok());
  for (const RowRange& range : {RowRange{{0, 1}, {1, 0}}, RowRange{{0, 0}, {1, kSlice}},
                                RowRange{{0, 0}, {2, 0}}, RowRange{{0, kSlice}, {0, 0}}}) {
    EXPECT_EQ(ErrorReason(CheckRowRange(range, specs)), "INVALID_ROW_RANGE");
  }
}

// --- Cuts ---

TEST(PartialSlicesTest, ACutHasTheBytesOfTheStateOfItsRows) {
  const std::vector<TensorSpec> specs = {Sparse("a", 4 * kSlice), Sparse("b", 2 * kSlice)};
  const std::vector<uint64_t> a = {0, 7, kSlice, 3 * kSlice - 1, 3 * kSlice};
  const std::vector<uint64_t> b = {5, kSlice + 5};
  const std::string whole = WritePartial(StateOf(specs, {a, b}));
  for (const RowPosition first :
       {RowPosition{0, 0}, {0, kSlice}, {0, 3 * kSlice}, {1, 0}, {2, 0}}) {
    for (const RowPosition end :
         {RowPosition{0, 0}, {0, 2 * kSlice}, {1, 0}, {1, kSlice}, {2, 0}}) {
      const RowRange range{first, end};
      std::vector<std::vector<uint64_t>> rows = {a, b};
      for (uint32_t i = 0; i < 2; ++i) {
        std::erase_if(rows[i], [&](uint64_t row) {
          return RowPosition{i, row} < first || RowPosition{i, row} >= end;
        });
      }
      const auto cut = CutPartial(whole, range);
      ASSERT_TRUE(cut.ok()) << cut.status();
      RoundPartial expected = StateOf(specs, rows);
      expected.entries = {a.size(), b.size()};
      EXPECT_EQ(Joined(*cut), WritePartial(expected)) << first.tensor << " " << first.row;
      EXPECT_TRUE(ReadPartial(Joined(*cut), {}).ok());
    }
  }
}

TEST(PartialSlicesTest, DamagedBytesAreRefused) {
  const std::vector<TensorSpec> specs = {Sparse("a", 4 * kSlice)};
  const std::string whole = WritePartial(StateOf(specs, {{1, 2, kSlice}}));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(ErrorReason(CutPartial(whole.substr(0, size), kNoRows).status()), "STORE_CORRUPT")
        << size;
  }
}

}  // namespace
}  // namespace sparseagg

// A result that is computed block by block equals the one that is computed at once, for every
// operator and shape. The blocks cover all rows and columns.
#include "service/engine/result/result_block.h"

#include <map>
#include <random>

#include "sparse/validate.h"
#include "tests/service/engine/testing.h"

namespace sparseagg {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;

constexpr uint64_t kRowsOfTest = 500;

struct Updates {
  ReduceSpec spec;
  std::vector<std::vector<uint64_t>> rows;
  std::vector<std::vector<float>> values;

  StagedUpdate Stage(const Aggregator& aggregator, size_t i) const {
    StagedUpdate staged = *aggregator.Stage(rows[i].size());
    std::copy(rows[i].begin(), rows[i].end(), staged.entries.rows.wide());
    std::copy(values[i].begin(), values[i].end(), static_cast<float*>(staged.entries.values));
    staged.order = *ValidateUpdate(spec, staged.entries.view(), Weight(i));
    return staged;
  }
  static float Weight(size_t i) { return 0.3f * static_cast<float>(i + 1); }
};

// Rows are unsorted and repeat.
Updates MakeUpdates(const std::string& op, uint32_t width, uint64_t num_rows, uint64_t nnz) {
  std::mt19937_64 random(7);
  Updates updates{.spec = {.name = "t", .layout = {num_rows, width, ValueType::kF32}, .op = op}};
  for (int u = 0; u < 4; ++u) {
    auto& rows = updates.rows.emplace_back(nnz);
    auto& values = updates.values.emplace_back(nnz * width);
    for (uint64_t& row : rows) row = random() % num_rows;
    for (float& value : values) value = 1e-3f * static_cast<float>(random() % 10'000) - 5.0f;
  }
  return updates;
}

std::unique_ptr<Aggregator> NewAggregator(Backend& backend, const ReduceSpec& spec) {
  return *backend.NewAggregator(*MakePlan(spec, Workload{}, backend.info()));
}

SparseTensor AtOnce(const Updates& updates, Backend& backend) {
  const auto aggregator = NewAggregator(backend, updates.spec);
  for (size_t i = 0; i < updates.rows.size(); ++i) {
    EXPECT_TRUE(aggregator->Accumulate(updates.Stage(*aggregator, i), Updates::Weight(i)).ok());
  }
  return std::move(*aggregator).Report()->tensor;
}

// The blocks of `result`, computed one after another and compared with it.
absl::Status ByBlocks(const Updates& updates, const SparseTensor& result, Backend& backend,
                      std::span<const ResultBlock> blocks) {
  const auto stager = NewAggregator(backend, updates.spec);
  for (const ResultBlock& block : blocks) {
    const auto aggregator = NewAggregator(backend, SpecOf(block, updates.spec));
    for (size_t i = 0; i < updates.rows.size(); ++i) {
      SPARSEAGG_ASSIGN_OR_RETURN(StagedUpdate part, PartOf(block, updates.Stage(*stager, i),
                                                           updates.spec, result, *aggregator));
      SPARSEAGG_RETURN_IF_ERROR(aggregator->Accumulate(std::move(part), Updates::Weight(i)));
    }
    SPARSEAGG_ASSIGN_OR_RETURN(const Aggregate again, std::move(*aggregator).Report());
    SPARSEAGG_RETURN_IF_ERROR(CheckBlock(block, updates.spec, again.tensor, result));
  }
  return absl::OkStatus();
}

std::vector<ResultBlock> Cut(const ReduceSpec& spec, const SparseTensor& result,
                             const Backend& backend, uint64_t bytes_max) {
  const auto groups =
      CutIntoBlocks(std::span(&spec, 1), std::span(&result, 1), backend.info(), bytes_max);
  EXPECT_TRUE(groups.ok()) << groups.status();
  std::vector<ResultBlock> blocks;
  for (const auto& group : *groups) blocks.insert(blocks.end(), group.begin(), group.end());
  return blocks;
}

class ResultBlockTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Backend> backend_ = testing::MakeBackend("reference");
};

TEST_P(ResultBlockTest, BlocksOfRowsGiveTheResult) {
  const Updates updates = MakeUpdates(GetParam(), 3, kRowsOfTest, 300);
  const SparseTensor result = AtOnce(updates, *backend_);
  const auto blocks = Cut(updates.spec, result, *backend_, 100'000);
  EXPECT_GT(blocks.size(), 3u);
  for (const ResultBlock& block : blocks) EXPECT_EQ(block.columns, 3u);
  EXPECT_EQ(ByBlocks(updates, result, *backend_, blocks), absl::OkStatus());
}

TEST_P(ResultBlockTest, BlocksOfColumnsGiveTheResultOfADenseTensor) {
  const Updates updates = MakeUpdates(GetParam(), 1000, 1, 1);
  const SparseTensor result = AtOnce(updates, *backend_);
  const auto blocks = Cut(updates.spec, result, *backend_, 100'000);
  // The result of a count has one value for all columns, so its columns are not divided.
  EXPECT_EQ(blocks.size() > 1, std::string(GetParam()) != "count") << blocks.size();
  EXPECT_EQ(ByBlocks(updates, result, *backend_, blocks), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(, ResultBlockTest,
                         ::testing::Values("sum", "weighted_mean", "mean_of_contributors", "count",
                                           "min", "max"),
                         [](const auto& test) { return std::string(test.param); });

TEST(ResultBlocksTest, TheBlocksOfATensorLeaveNoRowOutAndFitTheMemory) {
  const auto backend = testing::MakeBackend("reference");
  const Updates updates = MakeUpdates("sum", 1, kRowsOfTest, 300);
  const SparseTensor result = AtOnce(updates, *backend);
  const auto blocks = Cut(updates.spec, result, *backend, 50'000);
  ASSERT_GT(blocks.size(), 2u);
  uint64_t entries = 0;
  uint64_t end_row = 0;
  for (const ResultBlock& block : blocks) {
    EXPECT_LE(block.bytes, 50'000u);
    EXPECT_EQ(block.first_row, end_row);
    EXPECT_EQ(block.first_entry, entries);
    end_row = block.end_row;
    entries += block.entries;
  }
  EXPECT_EQ(end_row, kNumRowsMax);
  EXPECT_EQ(entries, result.nnz());
}

TEST(ResultBlocksTest, SmallTensorsAreComputedTogether) {
  const auto backend = testing::MakeBackend("reference");
  const Updates updates = MakeUpdates("sum", 1, kRowsOfTest, 30);
  const std::vector<SparseTensor> results(5, AtOnce(updates, *backend));
  const std::vector<ReduceSpec> specs(5, updates.spec);
  const auto all = CutIntoBlocks(specs, results, backend->info(), 1'000'000);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), 1u);
  EXPECT_EQ(all->front().size(), 5u);
  // The limit is one byte less than the blocks take together.
  uint64_t bytes = 0;
  for (const ResultBlock& block : all->front()) bytes += block.bytes;
  const auto apart = CutIntoBlocks(specs, results, backend->info(), bytes - 1);
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_EQ(apart->size(), 2u);
}

TEST(ResultBlocksTest, WhatDiffersIsNamed) {
  const auto backend = testing::MakeBackend("reference");
  const Updates updates = MakeUpdates("sum", 2, kRowsOfTest, 300);
  const SparseTensor result = AtOnce(updates, *backend);
  const auto blocks = Cut(updates.spec, result, *backend, 100'000);
  const auto status = [&](const SparseTensor& other) {
    return ByBlocks(updates, other, *backend, blocks);
  };
  const auto mismatch = FailsWith(absl::StatusCode::kDataLoss, "RESULT_MISMATCH");
  const std::string row = std::to_string(result.indices[100]);

  SparseTensor other = result;
  other.values[100 * result.layout.row_bytes() + 5] ^= std::byte{1};
  EXPECT_THAT(status(other), mismatch);
  EXPECT_THAT(std::string(status(other).message()),
              HasSubstr("tensor \"t\", row " + row + ": computed again, its bits differ"));

  // One row of the result is changed: no update has the new row, and the result does not have the
  // old one.
  other = result;
  uint64_t free_row = 0;
  while (std::count(result.indices.begin(), result.indices.end(), free_row) != 0) ++free_row;
  const auto above = std::lower_bound(result.indices.begin(), result.indices.end(), free_row) -
                     result.indices.begin();
  other.indices.kept()[above] = free_row;
  const auto at = Cut(updates.spec, other, *backend, uint64_t{1} << 40);
  const absl::Status moved = ByBlocks(updates, other, *backend, at);
  EXPECT_THAT(moved, mismatch);
  EXPECT_THAT(std::string(moved.message()),
              HasSubstr("row " + std::to_string(result.indices[above]) +
                        ": an update has this row, but the result does not"));
}

TEST(ResultBlocksTest, ARowThatNoUpdateHasIsAMismatch) {
  const auto backend = testing::MakeBackend("reference");
  Updates updates = MakeUpdates("sum", 1, kRowsOfTest, 300);
  const SparseTensor result = AtOnce(updates, *backend);
  const auto blocks = Cut(updates.spec, result, *backend, uint64_t{1} << 40);
  const uint64_t gone = result.indices[17];
  for (auto& rows : updates.rows) std::replace(rows.begin(), rows.end(), gone, result.indices[18]);
  const absl::Status status = ByBlocks(updates, result, *backend, blocks);
  EXPECT_THAT(status, FailsWith(absl::StatusCode::kDataLoss, "RESULT_MISMATCH"));
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("row " + std::to_string(gone) + ": the result has this row, but no update does"));
}

}  // namespace
}  // namespace sparseagg

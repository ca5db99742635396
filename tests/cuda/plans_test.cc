// Each plan at the sizes where its tiles, sweeps and pieces end, against the reference. On the
// fake GPU.
#include <gtest/gtest.h>

#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cuda/cuda_backend.h"
#include "cuda/kernels/rows/row_pieces.h"
#include "cuda/kernels/sort/sorted_tiles.h"
#include "cuda/kernels/tiles/tile_merge.h"
#include "sparse/reference_backend.h"
#include "tests/cuda/chosen_plans.h"
#include "tests/support/workload.h"

namespace sparseagg {
namespace {

using testing::Difference;
using testing::Distribution;
using testing::MakeSpec;
using testing::Shape;
using testing::Values;

class PlansTest : public ::testing::Test {
 protected:
  void ExpectReference(const ReduceSpec& spec, const Shape& shape, uint64_t seed = 3) {
    const auto updates = testing::MakeUpdates(spec, shape, seed);
    const auto expected = testing::Reduce(*reference_, spec, updates);
    for (const std::string& plan : testing::PlansFor(*cuda_, spec)) {
      EXPECT_EQ(Difference(expected, testing::Reduce(*cuda_, spec, updates, plan)), "")
          << plan << " " << spec.op << " nnz " << shape.nnz << " contributors "
          << shape.contributors << " rows " << spec.layout.num_rows;
    }
  }

  const std::unique_ptr<Backend> reference_ = *MakeReferenceBackend({});
  const std::unique_ptr<Backend> cuda_ =
      *testing::WithChosenPlans(MakeCudaBackend({}, {.calibrate = false}));
};

TEST_F(PlansTest, WhereTilesOfSortedPositionsEnd) {
  for (const char* op : {"sum", "mean_of_contributors", "min", "count"}) {
    const ReduceSpec spec = MakeSpec(op, ValueType::kF32, 100, 1);
    for (const int64_t more : {-1, 0, 1}) {
      for (const uint64_t tiles : {1, 2, 3}) {
        const auto nnz =
            static_cast<uint64_t>(static_cast<int64_t>(tiles * gpu::kTilePositions) + more);
        for (const Distribution distribution : {Distribution::kAllEqual, Distribution::kZipf}) {
          ExpectReference(spec, {nnz, 1, distribution, Values::kNormal}, nnz);
        }
      }
    }
  }
}

TEST_F(PlansTest, ARowInManyPieces) {
  for (const uint32_t width : {2u, 3u, 8u}) {
    const ReduceSpec spec = MakeSpec("mean_of_contributors", ValueType::kF32, 10, width);
    for (const uint64_t nnz : {gpu::kPiecePositions - 1, gpu::kPiecePositions,
                               gpu::kPiecePositions + 1, 5 * gpu::kPiecePositions}) {
      ExpectReference(spec, {nnz, 2, Distribution::kAllEqual, Values::kNormal}, nnz);
    }
  }
}

// More than are joined in one pass, and in two.
TEST_F(PlansTest, ARowInThousandsOfPieces) {
  for (const auto& [op, width, pieces] : {std::tuple{"sum", 4u, uint64_t{65}},
                                          {"sum", 2u, uint64_t{64 * 64 + 2}},
                                          {"max", 3u, uint64_t{129}}}) {
    const ReduceSpec spec = MakeSpec(op, ValueType::kF32, 3, width);
    ExpectReference(
        spec, {pieces * gpu::kPiecePositions + 7, 1, Distribution::kAllEqual, Values::kNormal});
  }
}

TEST_F(PlansTest, ARowInHundredsOfTiles) {
  for (const char* op : {"sum", "mean_of_contributors", "min"}) {
    for (const Distribution distribution : {Distribution::kAllEqual, Distribution::kZipf}) {
      ExpectReference(MakeSpec(op, ValueType::kF32, 5, 1),
                      {200 * gpu::kTilePositions + 3, 1, distribution, Values::kNormal});
    }
  }
}

TEST_F(PlansTest, SortedUpdatesInManySweepsAndTiles) {
  for (const char* op : {"sum", "mean_of_contributors", "count"}) {
    const ReduceSpec spec = MakeSpec(op, ValueType::kF32, 200'000, 1);
    ExpectReference(spec, {20'000, 3, Distribution::kSorted, Values::kHostile});
  }
}

TEST_F(PlansTest, MoreSortedUpdatesThanABlockHasThreads) {
  for (const uint32_t contributors : {7u, 100u, 257u, 700u}) {
    ExpectReference(MakeSpec("sum", ValueType::kBF16, 50'000, 1),
                    {40, contributors, Distribution::kSorted, Values::kNormal});
  }
}

TEST(CanMergeTiles, NotWhereMostTilesHaveNothingOfAnUpdate) {
  gpu::BatchView batch{.nnz = 100'000'000, .width = 1, .order = EntryOrder::kCanonical};
  const auto merges = [&](uint32_t updates, uint64_t rows) {
    batch.num_updates = updates;
    batch.num_rows = rows;
    return gpu::CanMergeTiles(batch, {});
  };
  EXPECT_TRUE(merges(100, 1'000'000'000));
  EXPECT_TRUE(merges(1000, 1'000'000'000));
  EXPECT_FALSE(merges(10'000, 1'000'000'000));
  EXPECT_TRUE(merges(4000, 1'000'000));
  EXPECT_FALSE(merges(1'000'000, 1'000'000));
  EXPECT_FALSE(merges(1, uint64_t{1} << 62));
  batch.nnz = 1'000'000;
  EXPECT_TRUE(merges(8, 100'000'000));
  EXPECT_FALSE(merges(8, 1'000'000'000));
  batch.nnz = 10;
  EXPECT_TRUE(merges(10, 1000));
}

TEST(CanMergeTiles, NotWhereOneRowHasMoreEntriesThanABlockShouldWalk) {
  gpu::BatchView batch{.num_updates = 10,
                       .nnz = 10'000'000,
                       .num_rows = 1'000'000,
                       .width = 1,
                       .order = EntryOrder::kSorted};
  batch.hottest_share = 0.01;
  EXPECT_TRUE(gpu::CanMergeTiles(batch, {}));
  batch.hottest_share = 0.1;
  EXPECT_FALSE(gpu::CanMergeTiles(batch, {}));
}

TEST_F(PlansTest, SortedUpdatesFarApartInALargeIndexSpace) {
  ExpectReference(MakeSpec("sum", ValueType::kF64, uint64_t{1} << 62, 1),
                  {5000, 4, Distribution::kSorted, Values::kNormal});
}

TEST_F(PlansTest, WordsThatDoNotPackAreSortedAsPairs) {
  // 63 bits of rows and 12 of entries.
  ExpectReference(MakeSpec("mean_of_contributors", ValueType::kI64, kNumRowsMax - 1, 1),
                  {1000, 4, Distribution::kDistinct, Values::kNormal});
}

TEST_F(PlansTest, PartialAggregatesGoBetweenBackEnds) {
  for (const char* op : {"sum", "mean_of_contributors", "max", "count"}) {
    for (const ValueType type : {ValueType::kF32, ValueType::kI64}) {
      const ReduceSpec spec = MakeSpec(op, type, 500, 2);
      const auto updates = testing::MakeUpdates(
          spec,
          {300, 4, Distribution::kZipf, IsFloating(type) ? Values::kHostile : Values::kNormal}, 9);
      const auto expected = testing::Reduce(*reference_, spec, updates);
      for (const auto& [first, second] : {std::pair{cuda_.get(), reference_.get()},
                                          {reference_.get(), cuda_.get()},
                                          {cuda_.get(), cuda_.get()}}) {
        const auto half = testing::NewAggregator(*first, spec);
        const auto whole = testing::NewAggregator(*second, spec);
        for (size_t u = 0; u < updates.size(); ++u) {
          Aggregator& to = u % 2 == 0 ? *half : *whole;
          ASSERT_TRUE(to.Accumulate(testing::StageCopy(to, updates[u]), updates[u].weight).ok());
        }
        const auto state = half->Snapshot();
        ASSERT_TRUE(state.ok()) << state.status();
        ASSERT_TRUE(whole->Merge(*state).ok());
        EXPECT_EQ(Difference(expected, std::move(*whole).Report()), "")
            << op << " from " << first->info().name << " to " << second->info().name;
      }
    }
  }
}

TEST_F(PlansTest, AHotRowIsSummedBeforeItMeetsAtomics) {
  ExpectReference(MakeSpec("sum", ValueType::kF32, 4000, 1),
                  {3000, 3, Distribution::kOneHotRow, Values::kFarApart});
}

}  // namespace
}  // namespace sparseagg

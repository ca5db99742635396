// The plan "row_reduce" where its warps, groups of lanes, pieces and positions end, in the three
// ways that it sums: rounded at once, as one batch that becomes slots, and in several. On the fake
// GPU.
#include "cuda/kernels/rows/row_reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cuda/device_reduction.h"
#include "cuda/kernels/rows/row_pieces.h"
#include "cuda/raii/memory_pool.h"
#include "cuda/window.h"
#include "sparse/ops/all.h"
#include "sparse/reference_backend.h"
#include "sparse/validate.h"
#include "tests/cuda/emulator/runtime.h"
#include "tests/support/workload.h"

namespace sparseagg::gpu {
namespace {

using sparseagg::testing::Difference;
using sparseagg::testing::Distribution;
using sparseagg::testing::MakeSpec;
using sparseagg::testing::MakeUpdates;
using sparseagg::testing::ResetFakeGpu;
using sparseagg::testing::TheFakeGpu;
using sparseagg::testing::Update;
using sparseagg::testing::Values;

constexpr ValueType kTypes[] = {ValueType::kF32, ValueType::kF16, ValueType::kBF16,
                                ValueType::kF64, ValueType::kI32, ValueType::kU64};

class RowReduceTest : public ::testing::Test {
 protected:
  void SetUp() override { ResetFakeGpu(); }

  static double TotalWeight(const std::vector<Update>& updates) {
    WideInteger total;
    for (const Update& update : updates) total.Add(update.weight);
    return total.ToDouble();
  }
  void AddTo(Batch& batch, const ReduceSpec& spec, const Update& update) {
    StagedUpdate staged = context_.staging.Stage(spec.layout, update.rows.size()).value();
    std::copy(update.rows.begin(), update.rows.end(), staged.entries.rows.wide());
    std::memcpy(staged.entries.values, update.values.data(), update.values.size());
    staged.order = ValidateUpdate(spec, staged.entries.view(), update.weight).value();
    batch.Add({std::move(staged), update.weight});
  }
  // Returns the result of batches of this size; the last one is passed to Finish() if `at_end`.
  absl::StatusOr<Aggregate> Reduce(const ReduceSpec& spec, const std::vector<Update>& updates,
                                   size_t of_batch, bool at_end) {
    DeviceReduction reduction(spec, "row_reduce", context_);
    for (size_t begin = 0; begin < updates.size(); begin += of_batch) {
      Batch batch(context_.uploads, context_.staging);
      const size_t end = std::min(begin + of_batch, updates.size());
      for (size_t u = begin; u < end; ++u) AddTo(batch, spec, updates[u]);
      if (at_end && end == updates.size()) return reduction.Finish(batch, TotalWeight(updates));
      reduction.Fold(batch);
    }
    return reduction.Finish(TotalWeight(updates));
  }
  void ExpectReference(const ReduceSpec& spec, const std::vector<Update>& updates,
                       const std::string& what) {
    const auto expected = sparseagg::testing::Reduce(**MakeReferenceBackend({}), spec, updates);
    const std::string where = absl::StrCat(what, ", ", spec.op, " of ", spec.layout.row_width,
                                           " of type ", static_cast<int>(spec.layout.value_type));
    const size_t all = updates.size();
    ASSERT_EQ(Difference(expected, Reduce(spec, updates, all, true)), "") << where << ", rounded";
    ASSERT_EQ(Difference(expected, Reduce(spec, updates, all, false)), "") << where << ", slots";
    ASSERT_EQ(Difference(expected, Reduce(spec, updates, (all + 1) / 2, true)), "") << where;
  }

  MemoryPool pool_{0, uint64_t{1} << 30};
  Context context_{pool_, uint64_t{256} << 20};
};

TEST_F(RowReduceTest, EveryWidthOfRow) {
  for (const ValueType type : kTypes) {
    for (const char* op : {"sum", "weighted_mean", "mean_of_contributors"}) {
      for (const uint32_t width : {1u, 2u, 3u, 4u, 6u, 8u, 12u, 20u, 36u, 64u, 128u, 132u, 260u}) {
        const ReduceSpec spec = MakeSpec(op, type, 90, width);
        // An odd number of entries: values that begin at no multiple of 16 bytes.
        ExpectReference(spec, MakeUpdates(spec, {.nnz = 41, .contributors = 3}, width), "widths");
      }
    }
  }
}

TEST_F(RowReduceTest, EveryKindOfValue) {
  for (const ValueType type : {ValueType::kF32, ValueType::kF16, ValueType::kBF16}) {
    for (const char* op : {"sum", "weighted_mean"}) {
      for (const Values values : sparseagg::testing::kAllValues) {
        const ReduceSpec spec = MakeSpec(op, type, 70, 8);
        ExpectReference(spec, MakeUpdates(spec, {60, 6, Distribution::kZipf, values}, 9),
                        absl::StrCat("values ", static_cast<int>(values)));
      }
    }
  }
}

TEST_F(RowReduceTest, WherePiecesAndWarpsEnd) {
  for (const uint64_t rows :
       {uint64_t{1}, uint64_t{31}, uint64_t{32}, uint64_t{33}, uint64_t{65}}) {
    for (const uint64_t pieces : {1, 2, 5}) {
      for (const int64_t more : {-1, 0, 1}) {
        const auto nnz =
            static_cast<uint64_t>(static_cast<int64_t>(pieces * kPiecePositions) + more);
        for (const Distribution distribution :
             {Distribution::kAllEqual, Distribution::kOneHotRow, Distribution::kZipf}) {
          const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, rows, 12);
          ExpectReference(spec, MakeUpdates(spec, {nnz, 2, distribution, Values::kNormal}, nnz),
                          absl::StrCat(nnz, " entries in ", rows));
        }
      }
    }
  }
}

// More partials than are joined in one pass.
TEST_F(RowReduceTest, ARowInManyPiecesBesideShortOnes) {
  const ReduceSpec spec = MakeSpec("weighted_mean", ValueType::kF32, 40, 4);
  for (const uint64_t pieces : {64, 65}) {
    ExpectReference(spec,
                    MakeUpdates(spec,
                                {2 * pieces * kPiecePositions + 7, 2, Distribution::kOneHotRow,
                                 Values::kFarApart},
                                pieces),
                    absl::StrCat(pieces, " pieces"));
  }
}

// Only the window's side table has what makes the sums of a long and of a short row finite.
TEST_F(RowReduceTest, ResultsBeyondTheTypeAreCountedOnce) {
  for (const Values values : {Values::kOverflowing, Values::kHostile}) {
    const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 30, 4);
    const auto updates = MakeUpdates(spec, {2000, 3, Distribution::kOneHotRow, values}, 11);
    const auto expected = sparseagg::testing::Reduce(**MakeReferenceBackend({}), spec, updates);
    ASSERT_TRUE(expected.ok());
    EXPECT_GT(expected->infinite_values, 0u);
    ExpectReference(spec, updates, "infinite");
  }
}

TEST_F(RowReduceTest, ARoundInOneBatchTakesNoMemoryForSlots) {
  constexpr uint64_t kRows = 3000;
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, kRows, 64);
  const auto updates = MakeUpdates(
      spec, {.nnz = kRows, .contributors = 1, .distribution = Distribution::kSorted}, 3);
  ResetFakeGpu();
  const uint64_t before = TheFakeGpu().memory_used;
  ASSERT_TRUE(Reduce(spec, updates, 1, true).ok());
  const uint64_t rounded = TheFakeGpu().memory_peak - before;
  ResetFakeGpu();
  ASSERT_TRUE(Reduce(spec, updates, 1, false).ok());
  EXPECT_LT(rounded, kRows * 64 * sizeof(Int128)) << "the values in and out are half of that";
  EXPECT_GT(TheFakeGpu().memory_peak - before, kRows * 64 * sizeof(Int128));
}

// Whatever is missing at whichever allocation, the ordinary way gives the same bits.
TEST_F(RowReduceTest, WithTooLittleMemoryToRoundAtOnceTheBitsAreTheSame) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 300, 8);
  const auto updates = MakeUpdates(spec, {400, 2, Distribution::kZipf, Values::kFarApart}, 3);
  const auto expected = sparseagg::testing::Reduce(**MakeReferenceBackend({}), spec, updates);
  size_t reduced = 0;
  for (uint64_t budget = 24 << 10; budget < 400 << 10; budget += 4 << 10) {
    MemoryPool pool(0, budget);
    Context context(pool, uint64_t{64} << 20);
    DeviceReduction reduction(spec, "row_reduce", context);
    Batch batch(context.uploads, context.staging);
    for (const Update& update : updates) AddTo(batch, spec, update);
    try {
      EXPECT_EQ(Difference(expected, reduction.Finish(batch, TotalWeight(updates))), "") << budget;
      ++reduced;
    } catch (const CudaError& error) {
      EXPECT_TRUE(error.out_of_memory()) << budget;
    }
  }
  EXPECT_GT(reduced, 20u);
}

}  // namespace
}  // namespace sparseagg::gpu

// For min and max: updates that have very many entries in a row, at the sizes where pieces and
// groups of pieces end. The GPU is fake, and the sums are the reference's.
#include "cuda/kernels/rows/long_sums.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "cuda/cuda_backend.h"
#include "sparse/reference_backend.h"
#include "tests/support/workload.h"

namespace sparseagg {
namespace {

using gpu::kLongSum;
using testing::Difference;
using testing::MakeSpec;
using testing::Update;
using testing::Values;

class LongSumsTest : public ::testing::Test {
 protected:
  void ExpectReference(const ReduceSpec& spec, const std::vector<Update>& updates) {
    const auto expected = testing::Reduce(*reference_, spec, updates);
    for (const char* plan :
         {"radix_segments", "row_reduce", "dense_accumulate", "thrust_sort_reduce"}) {
      EXPECT_EQ(Difference(expected, testing::Reduce(*cuda_, spec, updates, plan)), "")
          << plan << " " << spec.op << " of " << spec.layout.row_width << " "
          << ValueTypeName(spec.layout.value_type);
    }
  }
  // An update whose row r has entries[r] entries, one after another.
  static Update WithRuns(const ReduceSpec& spec, const std::vector<uint64_t>& entries,
                         uint64_t seed) {
    std::mt19937_64 random(seed);
    Update update;
    for (size_t row = 0; row < entries.size(); ++row) {
      update.rows.insert(update.rows.end(), entries[row], row);
    }
    const uint64_t values = update.rows.size() * spec.layout.row_width;
    const Values kind = IsFloating(spec.layout.value_type) ? Values::kCancelling : Values::kNormal;
    update.values = testing::MakeValues(spec, values, kind, random);
    return update;
  }

  const std::unique_ptr<Backend> reference_ = *MakeReferenceBackend({});
  const std::unique_ptr<Backend> cuda_ = *MakeCudaBackend({}, {.calibrate = false});
};

TEST_F(LongSumsTest, RunsThatAreJustLongOrNotLieSideBySide) {
  const std::vector<uint64_t> entries{kLongSum,     kLongSum + 1,     1, kLongSum - 1,
                                      2 * kLongSum, 2 * kLongSum + 1, 3, 5 * kLongSum + 7};
  for (const char* op : {"min", "max"}) {
    for (const ValueType type :
         {ValueType::kF16, ValueType::kF32, ValueType::kF64, ValueType::kI64}) {
      for (const uint32_t width : {1u, 3u}) {
        const ReduceSpec spec = MakeSpec(op, type, 10, width);
        ExpectReference(spec, {WithRuns(spec, entries, 1), WithRuns(spec, entries, 2)});
      }
    }
  }
}

TEST_F(LongSumsTest, RunsOfSeveralUpdatesShareARowAndShortOnesLieBetween) {
  const ReduceSpec spec = MakeSpec("min", ValueType::kF32, 10, 2);
  ExpectReference(spec, {WithRuns(spec, {700, 3, 2000}, 1), WithRuns(spec, {5, 1500, 600}, 2),
                         WithRuns(spec, {513, 512, 1}, 3)});
}

TEST_F(LongSumsTest, ARunInMoreThanAGroupOfPieces) {
  for (const uint64_t entries : {64 * kLongSum, 64 * kLongSum + 1, 129 * kLongSum + 5}) {
    const ReduceSpec spec = MakeSpec("max", ValueType::kF32, 10, 1);
    ExpectReference(spec, {WithRuns(spec, {100, entries, 700}, 1)});
  }
}

TEST_F(LongSumsTest, ModularIntegersWrap) {
  ReduceSpec spec = MakeSpec("max", ValueType::kI64, 10, 1);
  spec.integer_overflow = IntegerOverflow::kModular;
  std::mt19937_64 random(5);
  Update update = WithRuns(spec, {3000, 2}, 1);
  update.values = testing::MakeValues(spec, update.rows.size(), Values::kHostile, random);
  ExpectReference(spec, {update});
}

// More than one thread could sum while the device answers.
TEST_F(LongSumsTest, MillionsOfEntriesInARow) {
  const ReduceSpec spec = MakeSpec("max", ValueType::kF32, 10, 1);
  ExpectReference(spec, {WithRuns(spec, {(uint64_t{1} << 22) + 1, 1}, 1)});
}

}  // namespace
}  // namespace sparseagg

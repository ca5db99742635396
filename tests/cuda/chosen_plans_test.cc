// On the emulated GPU.
#include "tests/cuda/chosen_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cuda/cuda_backend.h"
#include "sparse/reference_backend.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {
namespace {

std::unique_ptr<Backend> Cuda() { return *MakeCudaBackend({}, {.calibrate = false}); }

TEST(ChosenPlansTest, OnlyThePlansOfTheListAreThereAndInItsOrder) {
  const auto backend = WithPlans(Cuda(), "row_reduce,tile_merge");
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_THAT((*backend)->info().plans, ::testing::ElementsAre("row_reduce", "tile_merge"));
}

TEST(ChosenPlansTest, ThePlannerChoosesAmongThem) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 1000, 1);
  const auto cuda = Cuda();
  for (const std::string& name : cuda->info().plans) {
    const auto backend = WithPlans(Cuda(), name);
    ASSERT_TRUE(backend.ok()) << backend.status();
    const auto plan = MakePlan(spec, {}, (*backend)->info());
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->name, name);
  }
}

TEST(ChosenPlansTest, TheirResultsAreTheBackEndsOwn) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 1000, 1);
  const auto updates = MakeUpdates(spec, {257, 3, Distribution::kZipf, Values::kHostile}, 1);
  const auto backend = WithPlans(Cuda(), "radix_segments");
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ(Difference(Reduce(**MakeReferenceBackend({}), spec, updates),
                       Reduce(**backend, spec, updates)),
            "");
}

TEST(ChosenPlansTest, AnEmptyListMeansAllPlansAndAnUnknownOneIsRefused) {
  const auto all = WithPlans(Cuda(), "");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ((*all)->info().plans, Cuda()->info().plans);
  EXPECT_TRUE(absl::IsNotFound(WithPlans(Cuda(), "row_reduce,none").status()));
}

}  // namespace
}  // namespace sparseagg::testing

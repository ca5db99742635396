#include "sparse/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sparse/status.h"
#include "tests/support/workload.h"

namespace sparseagg {
namespace {

using ::testing::HasSubstr;
using testing::MakeSpec;

BackendInfo Cpu() {
  BackendInfo info;
  info.name = "cpu";
  info.memory_bytes = uint64_t{8} << 30;
  info.plans = {"dense", "sort"};
  return info;
}

TEST(MakePlan, SmallIndexSpacesAreDense) {
  const Plan plan = MakePlan(MakeSpec("sum", ValueType::kF32, 1000, 64), {}, Cpu()).value();
  EXPECT_EQ(plan.name, "dense");
  EXPECT_THAT(plan.reason, HasSubstr("1000 rows of 64 slots"));
}

TEST(MakePlan, LargeIndexSpacesAreSorted) {
  const Plan plan =
      MakePlan(MakeSpec("sum", ValueType::kF32, uint64_t{1} << 40, 1), {}, Cpu()).value();
  EXPECT_EQ(plan.name, "sort");
  EXPECT_THAT(plan.reason, HasSubstr("does not pay"));
}

TEST(MakePlan, ManyExpectedEntriesMakeALargerIndexSpaceDense) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 10'000'000, 1);
  EXPECT_EQ(MakePlan(spec, {}, Cpu())->name, "sort");
  EXPECT_EQ(MakePlan(spec, {100, 100'000}, Cpu())->name, "dense");
}

TEST(MakePlan, DenseTensorsAreDenseWhileTheyFit) {
  EXPECT_EQ(MakePlan(MakeSpec("sum", ValueType::kF32, 1, 100'000'000), {}, Cpu())->name, "dense");
  EXPECT_EQ(MakePlan(MakeSpec("sum", ValueType::kF32, 1, 2'000'000'000), {}, Cpu())->name, "sort");
}

TEST(MakePlan, APlanCanBeForced) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 1000, 1);
  const Plan plan = MakePlan(spec, {}, Cpu(), "sort").value();
  EXPECT_EQ(plan.name, "sort");
  EXPECT_EQ(plan.reason, "asked for");
}

TEST(MakePlan, AForcedPlanMustExistAndFit) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, uint64_t{1} << 62, 1);
  const auto unknown = MakePlan(spec, {}, Cpu(), "quantum");
  EXPECT_EQ(ErrorReason(unknown.status()), "UNKNOWN_PLAN");
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("dense, sort"));
  const auto large = MakePlan(spec, {}, Cpu(), "dense");
  EXPECT_EQ(large.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(large.status()), "PLAN_TOO_LARGE");
}

}  // namespace
}  // namespace sparseagg

#include "sparse/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/support/workload.h"

namespace sparseagg {
namespace {

using ::testing::HasSubstr;
using testing::MakeSpec;
using ::testing::Not;

// A fictitious cost model: "small" takes one MiB per row and 1 us per entry; "any" takes no fixed
// memory and 3 us per entry.
PlanCost Cost(const BackendInfo&, std::string_view plan, const ReduceSpec& spec,
              const Workload& workload) {
  const double entries =
      static_cast<double>(workload.contributors) * static_cast<double>(workload.nnz_per_update);
  if (plan == "small") return {1e-6 * entries, spec.layout.num_rows << 20, 12};
  return {3e-6 * entries, 0, 24};
}

BackendInfo FictitiousBackend() {
  BackendInfo info;
  info.name = "made-up";
  info.memory_bytes = uint64_t{100} << 20;
  info.plans = {"small", "any"};
  info.cost = &Cost;
  return info;
}

const Workload kKnown{.contributors = 10, .nnz_per_update = 500'000};

TEST(MakePlan, TakesTheCheapestAndSaysWhatTheOthersCost) {
  const Plan plan =
      MakePlan(MakeSpec("sum", ValueType::kF32, 100, 1), kKnown, FictitiousBackend()).value();
  EXPECT_EQ(plan.name, "small");
  EXPECT_EQ(plan.reason, "5 s expected; any 15 s");
  EXPECT_FALSE(plan.adaptive);
  EXPECT_FALSE(plan.forced);
  EXPECT_DOUBLE_EQ(plan.cost.seconds, 5);
  EXPECT_EQ(plan.cost.fixed_bytes, uint64_t{100} << 20);
  EXPECT_EQ(plan.cost.entry_bytes, 12u);
}

TEST(MakePlan, TimesAreDecimalNumbersWithoutExponents) {
  const auto reason = [](uint64_t entries) {
    const Workload workload{.contributors = 1, .nnz_per_update = entries};
    return MakePlan(MakeSpec("sum", ValueType::kF32, 100, 1), workload, FictitiousBackend())
        ->reason;
  };
  EXPECT_EQ(reason(100), "300 us expected; small needs 100 MiB");
  EXPECT_EQ(reason(500), "1.5 ms expected; small needs 100 MiB");
  EXPECT_EQ(reason(250'000), "750 ms expected; small needs 100 MiB");
  EXPECT_EQ(reason(150'000'000), "150 s expected; any 450 s");
}

TEST(MakePlan, APlanThatDoesNotFitIsNotTakenHoweverCheap) {
  const Plan plan =
      MakePlan(MakeSpec("sum", ValueType::kF32, 101, 1), kKnown, FictitiousBackend()).value();
  EXPECT_EQ(plan.name, "any");
  EXPECT_THAT(plan.reason, HasSubstr("small needs 101 MiB"));
}

// With 100 entries, the waiting ones take 1,000,000 bytes, and the general plan may use twice as
// much beside them.
TEST(IsAffordable, TheListingReusesTheMemoryOfTheEntries) {
  const PlanCost general{.entry_bytes = 20'000};
  const auto affordable = [&](uint64_t fixed, uint64_t listing) {
    return IsAffordable({.fixed_bytes = fixed, .entry_bytes = 10'000, .listing_bytes = listing},
                        general, 100);
  };
  EXPECT_TRUE(affordable(2'000'000, 0));
  EXPECT_FALSE(affordable(2'000'001, 0));
  EXPECT_TRUE(affordable(2'000'000, 1'000'000));
  EXPECT_FALSE(affordable(2'000'000, 1'000'001));
  EXPECT_TRUE(affordable(1'500'000, 1'500'000));
}

TEST(MakePlan, TheListingHasToFitInMemoryBesideTheState) {
  BackendInfo info = FictitiousBackend();
  info.cost = [](const BackendInfo&, std::string_view plan, const ReduceSpec&, const Workload&) {
    if (plan == "any") return PlanCost{.seconds = 2, .entry_bytes = 24};
    return PlanCost{.seconds = 1,
                    .fixed_bytes = uint64_t{60} << 20,
                    .entry_bytes = 12,
                    .listing_bytes = uint64_t{41} << 20};
  };
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 100, 1);
  EXPECT_THAT(MakePlan(spec, kKnown, info)->reason, HasSubstr("small needs 101 MiB"));
  EXPECT_EQ(ErrorReason(MakePlan(spec, kKnown, info, "small").status()), "PLAN_TOO_LARGE");
  info.memory_bytes = uint64_t{101} << 20;
  EXPECT_EQ(MakePlan(spec, kKnown, info)->name, "small");
}

TEST(MakePlan, AssumesNothingOfAnUnknownWorkload) {
  for (const Workload& unknown : {Workload{}, Workload{.contributors = 10}}) {
    const Plan plan =
        MakePlan(MakeSpec("sum", ValueType::kF32, 10, 1), unknown, FictitiousBackend()).value();
    EXPECT_EQ(plan.name, "any");
    EXPECT_TRUE(plan.adaptive);
    EXPECT_EQ(plan.cost.fixed_bytes, 0u);
    EXPECT_EQ(plan.cost.seconds, 0);
  }
}

TEST(MakePlan, KnowsThatEveryUpdateOfADenseTensorHasItsRow) {
  const Plan plan =
      MakePlan(MakeSpec("sum", ValueType::kF32, 1, 10), {}, FictitiousBackend()).value();
  EXPECT_FALSE(plan.adaptive);
  EXPECT_THAT(plan.reason, HasSubstr("for a typical round"));
  EXPECT_THAT(plan.reason, Not(HasSubstr("expected")));
}

// Here "small" takes 10 MiB, and "any" takes 24 bytes per entry.
TEST(MakePlan, AStateForAllRowsNeedsEnoughEntries) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 10, 1);
  const uint64_t enough = (uint64_t{10} << 20) / 24 + 1;
  EXPECT_EQ(MakePlan(spec, {1, enough - 1}, FictitiousBackend()).value().name, "any");
  EXPECT_EQ(MakePlan(spec, {1, enough}, FictitiousBackend()).value().name, "small");
}

TEST(MakePlan, APlanCanBeForced) {
  const Plan plan =
      MakePlan(MakeSpec("sum", ValueType::kF32, 10, 1), kKnown, FictitiousBackend(), "any").value();
  EXPECT_EQ(plan.name, "any");
  EXPECT_EQ(plan.reason, "requested");
  EXPECT_TRUE(plan.forced);
  EXPECT_DOUBLE_EQ(plan.cost.seconds, 15);
}

TEST(MakePlan, AForcedPlanMustExistAndFit) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 1000, 1);
  const auto unknown = MakePlan(spec, kKnown, FictitiousBackend(), "quantum");
  EXPECT_EQ(ErrorReason(unknown.status()), "UNKNOWN_PLAN");
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("small, any"));
  const auto large = MakePlan(spec, kKnown, FictitiousBackend(), "small");
  EXPECT_EQ(large.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(large.status()), "PLAN_TOO_LARGE");
  EXPECT_THAT(std::string(large.status().message()), HasSubstr("needs 1000 MiB"));
}

}  // namespace
}  // namespace sparseagg

// A reduction that folds batches and merges partial aggregates gives the bytes of one that gets
// everything at once, also where the state between two batches spans many windows and ranges.
#include <gtest/gtest.h>

#include <ostream>
#include <random>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cpu/cpu_backend.h"
#include "sparse/ops/all.h"
#include "sparse/reference_backend.h"
#include "sparse/validate.h"
#include "tests/support/crowd.h"
#include "tests/support/sanitizer.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {
namespace {

struct Case {
  const char* name;
  Crowd crowd;
  Arrival arrival;
  uint64_t num_rows;
  uint64_t entries;
  uint32_t width;
  ValueType type;
  Values values;
};

constexpr Case kCases[] = {
    {"UniformDense", Crowd::kUniform, Arrival::kCanonical, uint64_t{1} << 17, 100'000, 1,
     ValueType::kF32, Values::kNormal},
    {"UniformShuffled", Crowd::kUniform, Arrival::kShuffled, uint64_t{1} << 17, 300'000, 1,
     ValueType::kF32, Values::kNormal},
    {"UniformSparse", Crowd::kUniform, Arrival::kRepeated, uint64_t{1} << 40, 100'000, 1,
     ValueType::kF32, Values::kNormal},
    {"Corner", Crowd::kCorner, Arrival::kShuffled, uint64_t{1} << 60, 100'000, 1, ValueType::kBF16,
     Values::kHostile},
    {"Clusters", Crowd::kClusters, Arrival::kSorted, uint64_t{1} << 62, 60'000, 1, ValueType::kF64,
     Values::kHostile},
    {"HotRow", Crowd::kHotRow, Arrival::kSorted, uint64_t{1} << 62, 150'000, 1, ValueType::kF32,
     Values::kCancelling},
    {"Runs", Crowd::kRuns, Arrival::kCanonical, uint64_t{1} << 16, 150'000, 1, ValueType::kF32,
     Values::kTies},
    {"Integers", Crowd::kZipf, Arrival::kRepeated, uint64_t{1} << 40, 80'000, 1, ValueType::kU64,
     Values::kNormal},
    {"RowsOfFive", Crowd::kClusters, Arrival::kRepeated, uint64_t{1} << 62, 50'000, 5,
     ValueType::kF32, Values::kHostile},
    {"VeryWideRows", Crowd::kUniform, Arrival::kRepeated, 3, 40, 10'007, ValueType::kF32,
     Values::kHostile},
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class StreamingTest : public ::testing::TestWithParam<std::tuple<Case, std::string_view>> {
 protected:
  StreamingTest() {
    const auto& [c, op] = GetParam();
    spec_ = MakeSpec(std::string(op), c.type, FewerUnderTsan(c.num_rows), FewerUnderTsan(c.width));
    updates_ = MakeCrowd(spec_,
                         {.crowd = c.crowd,
                          .arrival = c.arrival,
                          .entries = FewerUnderTsan(c.entries),
                          .contributors = 4,
                          .values = c.values},
                         17);
    expected_ = Reduce(*reference_, spec_, updates_);
    EXPECT_TRUE(expected_.ok()) << expected_.status();
    plans_ = PlansFor(*cpu_, spec_);
  }

  void Accumulate(Aggregator& aggregator, const Update& update) const {
    StagedUpdate staged = StageCopy(aggregator, update);
    const auto order = ValidateUpdate(spec_, staged.entries.view(), update.weight);
    ASSERT_TRUE(order.ok()) << order.status();
    staged.order = *order;
    ASSERT_TRUE(aggregator.Accumulate(std::move(staged), update.weight).ok());
  }

  std::unique_ptr<Backend> reference_ = *MakeReferenceBackend({});
  std::unique_ptr<Backend> cpu_ =
      *MakeCpuBackend({.threads = 4, .memory_bytes = uint64_t{1} << 30});
  ReduceSpec spec_;
  std::vector<Update> updates_;
  absl::StatusOr<Aggregate> expected_ = Aggregate{};
  std::vector<std::string> plans_;
};

TEST_P(StreamingTest, FoldingAfterEveryUpdateChangesNoBit) {
  for (const std::string& plan : plans_) {
    const auto aggregator = NewAggregator(*cpu_, spec_, plan);
    for (const Update& update : updates_) {
      Accumulate(*aggregator, update);
      ASSERT_TRUE(aggregator->Snapshot().ok());  // folds the pending update
    }
    EXPECT_EQ(Difference(expected_, std::move(*aggregator).Report()), "") << plan;
  }
}

TEST_P(StreamingTest, AStateThatHoldsHalfOfTheRowsIsKeptDense) {
  Plan plan = *MakePlan(spec_, {}, cpu_->info(), plans_.back());
  plan.forced = false;
  const auto aggregator = *cpu_->NewAggregator(plan);
  // Unsorted single values do not make the state dense; unsorted wide rows do.
  const Case& c = std::get<0>(GetParam());
  const bool far = c.arrival == Arrival::kShuffled && c.width == 1;
  for (const Update& update : updates_) {
    Accumulate(*aggregator, update);
    const auto state = aggregator->Snapshot();
    ASSERT_TRUE(state.ok());
    const bool half = state->rows.size() >= spec_.layout.num_rows / 2 + spec_.layout.num_rows % 2;
    if (kThreadSanitizer) continue;  // its index spaces and rows are too small for either
    EXPECT_EQ(aggregator->plan_report().plan == "dense", (half && !far) || plan.name == "dense");
  }
  EXPECT_EQ(Difference(expected_, std::move(*aggregator).Report()), "");
}

TEST_P(StreamingTest, ASnapshotIsAllOfTheState) {
  for (const std::string& plan : plans_) {
    const auto aggregator = NewAggregator(*cpu_, spec_, plan);
    for (const Update& update : updates_) Accumulate(*aggregator, update);
    const auto partial = aggregator->Snapshot();
    ASSERT_TRUE(partial.ok()) << partial.status();
    for (size_t i = 1; i < partial->rows.size(); ++i) {
      ASSERT_LT(partial->rows[i - 1], partial->rows[i]);
    }
    const auto other = NewAggregator(*reference_, spec_);
    ASSERT_TRUE(other->Merge(*partial).ok());
    EXPECT_EQ(Difference(expected_, std::move(*other).Report()), "") << plan;
  }
}

TEST_P(StreamingTest, PartialsOfEveryPlanMergeIntoEveryPlan) {
  // Two of the updates, as partials of all the plans and of the reference.
  std::vector<std::pair<std::string, Partial>> partials;
  const auto add_partial = [&](Backend& backend, const std::string& plan) {
    const auto from = NewAggregator(backend, spec_, plan);
    Accumulate(*from, updates_[1]);
    Accumulate(*from, updates_[3]);
    partials.emplace_back(absl::StrCat(backend.info().name, "/", plan), *from->Snapshot());
  };
  for (const std::string& plan : plans_) add_partial(*cpu_, plan);
  add_partial(*reference_, "");
  for (const std::string& plan : plans_) {
    for (const auto& [name, partial] : partials) {
      // One update is pending before the merge, and one arrives after it.
      const auto into = NewAggregator(*cpu_, spec_, plan);
      Accumulate(*into, updates_[0]);
      ASSERT_TRUE(into->Merge(partial).ok());
      Accumulate(*into, updates_[2]);
      EXPECT_EQ(Difference(expected_, std::move(*into).Report()), "") << name << " into " << plan;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Workloads, StreamingTest,
                         ::testing::Combine(::testing::ValuesIn(kCases),
                                            ::testing::ValuesIn(AllOps::kNames)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param).name, "_",
                                               std::string(std::get<1>(info.param)));
                         });

// 190 MB of entries of five hundred rows; half of it, which is more than a batch, under
// ThreadSanitizer.
class BatchesTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kUpdateEntries = 60'000;
  static constexpr int kUpdates = kThreadSanitizer ? 6 : 12;
  static constexpr uint64_t kUpdateBytes = kUpdateEntries * (sizeof(uint64_t) + 64 * sizeof(float));

  BatchesTest() : spec_(MakeSpec("sum", ValueType::kF32, uint64_t{1} << 40, 64)) {
    std::mt19937_64 random(1);
    for (uint64_t i = 0; i < kUpdateEntries; ++i) {
      update_.rows.push_back(random() % 500 * 1'000'003);
    }
    update_.values = MakeValues(spec_, kUpdateEntries * 64, Values::kSmall, random);
    const auto reference = *MakeReferenceBackend({});
    const auto aggregator = NewAggregator(*reference, spec_);
    for (int u = 0; u < kUpdates; ++u) {
      EXPECT_TRUE(aggregator->Accumulate(StageCopy(*aggregator, update_), WeightOf(u)).ok());
    }
    expected_ = std::move(*aggregator).Report();
  }

  static float WeightOf(int u) { return 1.0f + static_cast<float>(u) / 7; }

  absl::StatusOr<std::unique_ptr<Aggregator>> NewOne(const std::string& plan, bool at_once) {
    const auto made = MakePlan(spec_, {.at_once = at_once}, cpu_->info(), plan);
    return made.ok() ? cpu_->NewAggregator(*made) : made.status();
  }

  std::unique_ptr<Backend> cpu_ =
      *MakeCpuBackend({.threads = 2, .memory_bytes = uint64_t{1} << 30});
  ReduceSpec spec_;
  Update update_;
  absl::StatusOr<Aggregate> expected_ = Aggregate{};
};

TEST_F(BatchesTest, PendingEntriesAreBounded) {
  for (const std::string& plan : PlansFor(*cpu_, spec_)) {
    auto aggregator = *NewOne(plan, false);
    for (int u = 0; u < kUpdates; ++u) {
      ASSERT_TRUE(aggregator->Accumulate(StageCopy(*aggregator, update_), WeightOf(u)).ok());
      EXPECT_LT(aggregator->memory_bytes(), uint64_t{100} << 20) << plan;
    }
    EXPECT_GT(aggregator->plan_report().seconds, 0.0) << plan << " has not folded anything";
    EXPECT_EQ(Difference(expected_, std::move(*aggregator).Report()), "") << plan;
  }
}

TEST_F(BatchesTest, UpdatesThatAreReducedAtOnceStayPending) {
  for (const std::string& plan : PlansFor(*cpu_, spec_)) {
    auto aggregator = *NewOne(plan, true);
    for (int u = 0; u < kUpdates; ++u) {
      ASSERT_TRUE(aggregator->Accumulate(StageCopy(*aggregator, update_), WeightOf(u)).ok());
      EXPECT_GE(aggregator->memory_bytes(), (u + 1) * kUpdateBytes) << plan;
    }
    EXPECT_EQ(Difference(expected_, std::move(*aggregator).Report()), "") << plan;
  }
}

TEST(EmptyPartials, ChangeNothing) {
  const auto cpu = *MakeCpuBackend({.threads = 2, .memory_bytes = uint64_t{1} << 30});
  const auto reference = *MakeReferenceBackend({});
  for (std::string_view op : AllOps::kNames) {
    const ReduceSpec spec = MakeSpec(std::string(op), ValueType::kF32, uint64_t{1} << 20, 2);
    const auto updates = MakeUpdates(spec, {.nnz = 100, .contributors = 2}, 1);
    const auto expected = Reduce(*reference, spec, updates);
    for (const std::string& plan : PlansFor(*cpu, spec)) {
      const auto empty = NewAggregator(*cpu, spec, plan)->Snapshot();
      ASSERT_TRUE(empty.ok()) << empty.status();
      EXPECT_TRUE(empty->rows.empty());
      const auto aggregator = NewAggregator(*cpu, spec, plan);
      ASSERT_TRUE(aggregator->Merge(*empty).ok());
      for (const Update& update : updates) {
        ASSERT_TRUE(aggregator->Accumulate(StageCopy(*aggregator, update), update.weight).ok());
        ASSERT_TRUE(aggregator->Merge(*empty).ok());
      }
      EXPECT_EQ(Difference(expected, std::move(*aggregator).Report()), "") << op << " " << plan;
    }
  }
}

}  // namespace
}  // namespace sparseagg::testing

// A round on a GPU with nothing told in advance: what it takes of the device is that of the
// entries, and by the model it is about as fast as the plan that would have been best. On the fake
// GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cuda/cuda_backend.h"
#include "tests/cuda/emulator/runtime.h"
#include "tests/support/workload.h"

namespace sparseagg {
namespace {

using testing::Distribution;
using testing::MakeSpec;
using testing::TheFakeGpu;
using testing::Values;

constexpr uint64_t kMiB = uint64_t{1} << 20;

struct Round {
  uint64_t rows;
  uint32_t width;
  uint32_t contributors;
  uint64_t entries;  // of each contributor
};

std::string NameOf(const Round& round) {
  return std::to_string(round.contributors) + " x " + std::to_string(round.entries) +
         " entries in " + std::to_string(round.rows) + " x " + std::to_string(round.width);
}

// The grid of bench/planner_bench.py, but for rounds that take a fake GPU long.
std::vector<Round> Rounds() {
  std::vector<Round> rounds;
  for (const uint64_t rows : {uint64_t{10'000}, uint64_t{1'000'000}, uint64_t{10'000'000},
                              uint64_t{1'000'000'000}, uint64_t{1} << 40}) {
    for (const uint32_t width : {1u, 16u, 64u, 512u}) {
      for (const uint32_t contributors : {1u, 10u, 1000u}) {
        for (const uint64_t entries : {1u, 100u, 10'000u}) {
          if (contributors * entries * (8 + 4 * width) > 4 * kMiB) continue;
          rounds.push_back({rows, width, contributors, entries});
        }
      }
    }
  }
  return rounds;
}

class BlindTest : public ::testing::Test {
 protected:
  BlindTest() { testing::ResetFakeGpu(); }

  double SecondsOf(const std::string& plan, const ReduceSpec& spec, const Round& round) const {
    const BackendInfo& info = backend_->info();
    return info
        .cost(info, plan, spec,
              {.contributors = round.contributors,
               .nnz_per_update = round.entries,
               .order = EntryOrder::kCanonical,
               .at_once = true})
        .seconds;
  }

  const std::unique_ptr<Backend> backend_ = *MakeCudaBackend({}, {.calibrate = false});
};

TEST_F(BlindTest, ARoundTakesWhatItsEntriesTakeAndTheTimeOfTheBestPlan) {
  for (const Round& round : Rounds()) {
    SCOPED_TRACE(NameOf(round));
    const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, round.rows, round.width);
    const auto updates = testing::MakeUpdates(
        spec, {round.entries, round.contributors, Distribution::kSorted, Values::kSmall}, 1);
    TheFakeGpu().memory_peak = TheFakeGpu().memory_used;
    const uint64_t idle = TheFakeGpu().memory_used;

    const auto aggregator = testing::NewAggregator(*backend_, spec);
    for (const testing::Update& update : updates) {
      StagedUpdate staged = testing::StageCopy(*aggregator, update);
      staged.order = EntryOrder::kCanonical;
      ASSERT_TRUE(aggregator->Accumulate(std::move(staged), update.weight).ok());
    }
    const auto state = aggregator->Snapshot();  // reduces what waits, as Report() does
    ASSERT_TRUE(state.ok()) << state.status();
    const uint64_t bytes = round.contributors * round.entries * (8 + 4 * round.width);
    EXPECT_LE(TheFakeGpu().memory_peak - idle, 4 * 2 * bytes + 16 * kMiB)
        << aggregator->plan_report().plan;

    double best = std::numeric_limits<double>::infinity();
    for (const std::string& plan : testing::PlansFor(*backend_, spec)) {
      best = std::min(best, SecondsOf(plan, spec, round));
    }
    const std::string chosen = aggregator->plan_report().plan;
    EXPECT_LE(SecondsOf(chosen, spec, round), 3 * best + 0.002) << chosen;
  }
}

}  // namespace
}  // namespace sparseagg

// No number of threads changes a bit: 1 to 8 of them give the bytes of the reference back end, on
// workloads of several windows, ranges and tasks, each with its own way of being uneven.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <ostream>
#include <span>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "cpu/cpu_backend.h"
#include "sparse/ops/all.h"
#include "sparse/reference_backend.h"
#include "tests/support/crowd.h"
#include "tests/support/effort.h"
#include "tests/support/sanitizer.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {
namespace {

// How many threads: the first SPARSEAGG_THREAD_COUNTS of these. All take two minutes, and under
// ThreadSanitizer more than ten.
std::span<const uint32_t> ThreadCounts() {
  static constexpr std::array<uint32_t, 8> kCounts = {3, 8, 1, 2, 4, 5, 6, 7};
  const int wanted = Effort("SPARSEAGG_THREAD_COUNTS", kThreadSanitizer ? 2 : 4);
  return std::span(kCounts).first(std::min<size_t>(wanted, kCounts.size()));
}

constexpr uint64_t kDenseSpace = uint64_t{1} << 18;
constexpr uint64_t kSparseSpace = uint64_t{1} << 40;
// Windows of these spaces are so large that sort keys do not tell all rows apart.
constexpr uint64_t kHugeSpace = uint64_t{1} << 62;

struct Case {
  const char* name;
  Crowd crowd;
  Arrival arrival;
  uint64_t num_rows;
  uint64_t entries;
  uint32_t width = 1;
  ValueType type = ValueType::kF32;
  Values values = Values::kNormal;
  uint32_t contributors = 7;
  uint64_t entries_min = 100'000;  // that are left where rows may not repeat
};

constexpr Case kCases[] = {
    {"UniformCanonical", Crowd::kUniform, Arrival::kCanonical, kDenseSpace, 140'000},
    {"UniformShuffled", Crowd::kUniform, Arrival::kShuffled, kDenseSpace, 140'000},
    {"UniformSortedRepeated", Crowd::kUniform, Arrival::kSorted, kSparseSpace, 110'000},
    {"ZipfRepeated", Crowd::kZipf, Arrival::kRepeated, kSparseSpace, 110'000, 1, ValueType::kF16},
    {"ZipfManyContributors", Crowd::kZipf, Arrival::kCanonical, kSparseSpace, 150'000, 1,
     ValueType::kBF16, Values::kNormal, 500},
    {"OneRow", Crowd::kOneRow, Arrival::kRepeated, kSparseSpace, 110'000, 1, ValueType::kF32,
     Values::kHostile},
    {"OneRowOfASmallSpace", Crowd::kOneRow, Arrival::kSorted, 3, 110'000, 1, ValueType::kF64,
     Values::kHostile},
    {"OneContributorSorted", Crowd::kOneContributor, Arrival::kCanonical, kSparseSpace, 110'000},
    {"OneContributorShuffled", Crowd::kOneContributor, Arrival::kRepeated, kDenseSpace, 110'000},
    {"CornerSorted", Crowd::kCorner, Arrival::kCanonical, uint64_t{1} << 60, 180'000},
    {"CornerShuffled", Crowd::kCorner, Arrival::kRepeated, uint64_t{1} << 60, 110'000},
    {"ClustersSorted", Crowd::kClusters, Arrival::kSorted, kHugeSpace, 110'000},
    {"ClustersShuffled", Crowd::kClusters, Arrival::kRepeated, kHugeSpace, 110'000, 1,
     ValueType::kF64},
    // More entries of one row than a sparse window takes.
    {"HotRowSorted", Crowd::kHotRow, Arrival::kSorted, kHugeSpace, 300'000},
    {"HotRowShuffled", Crowd::kHotRow, Arrival::kRepeated, kSparseSpace, 300'000},
    {"RunsCanonical", Crowd::kRuns, Arrival::kCanonical, uint64_t{1} << 16, 150'000},
    {"RunsOfF64", Crowd::kRuns, Arrival::kCanonical, uint64_t{1} << 16, 150'000, 1, ValueType::kF64,
     Values::kHostile},
    {"RunsShuffled", Crowd::kRuns, Arrival::kShuffled, uint64_t{1} << 16, 150'000, 1,
     ValueType::kF16},
    {"IntegersRepeated", Crowd::kZipf, Arrival::kRepeated, kDenseSpace, 110'000, 1,
     ValueType::kI64},
    {"RowsOfThreeSorted", Crowd::kUniform, Arrival::kSorted, kSparseSpace, 100'009, 3},
    {"RowsOfThreeShuffled", Crowd::kClusters, Arrival::kRepeated, kHugeSpace, 110'000, 3},
    {"HotRowOfThree", Crowd::kHotRow, Arrival::kSorted, kHugeSpace, 280'000, 3},
    {"WideRowsSorted", Crowd::kUniform, Arrival::kCanonical, 3000, 40'000, 64, ValueType::kF32,
     Values::kNormal, 20, 10'000},
    {"WideRowsShuffled", Crowd::kClusters, Arrival::kRepeated, 3000, 20'000, 64, ValueType::kBF16,
     Values::kNormal, 20, 20'000},
    // Each has so few entries that the dense plan distributes them over slices.
    {"WideRowsOfManyContributors", Crowd::kUniform, Arrival::kCanonical, 40'000, 20'000, 64,
     ValueType::kF32, Values::kNormal, 5000, 18'000},
    // Rows are so few and wide that threads share rows, not the index space.
    {"VeryWideRows", Crowd::kUniform, Arrival::kCanonical, 3, 30, 10'007, ValueType::kF32,
     Values::kHostile, 10, 15},
    {"VeryWideRowsRepeated", Crowd::kUniform, Arrival::kRepeated, 3, 30, 10'007, ValueType::kF16,
     Values::kNormal, 5, 30},
};

// Test names and messages show this.
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class ThreadsTest : public ::testing::TestWithParam<std::tuple<Case, std::string_view>> {};

TEST_P(ThreadsTest, GiveTheBytesOfTheReference) {
  const auto& [c, op] = GetParam();
  const ReduceSpec spec =
      MakeSpec(std::string(op), c.type, FewerUnderTsan(c.num_rows), FewerUnderTsan(c.width));
  const auto updates = MakeCrowd(spec,
                                 {.crowd = c.crowd,
                                  .arrival = c.arrival,
                                  .entries = FewerUnderTsan(c.entries),
                                  .contributors = FewerUnderTsan(c.contributors),
                                  .values = c.values},
                                 1);
  ASSERT_GE(EntriesOf(updates), FewerUnderTsan(c.entries_min));
  const auto reference = *MakeReferenceBackend({});
  const auto expected = Reduce(*reference, spec, updates);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const uint32_t threads : ThreadCounts()) {
    const auto cpu = *MakeCpuBackend({.threads = threads, .memory_bytes = uint64_t{1} << 30});
    ASSERT_EQ(cpu->info().threads, threads);
    for (const std::string& plan : PlansFor(*cpu, spec)) {
      ASSERT_EQ(Difference(expected, Reduce(*cpu, spec, updates, plan)), "")
          << plan << " with " << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Workloads, ThreadsTest,
                         ::testing::Combine(::testing::ValuesIn(kCases),
                                            ::testing::ValuesIn(AllOps::kNames)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param).name, "_",
                                               std::string(std::get<1>(info.param)));
                         });

// There are half as many rows as entries: what threads have written apart moves over a megabyte of
// gaps.
TEST(Threads, LargeGapsBetweenTheirResultsAreClosed) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, FewerUnderTsan(500'000), 1);
  const auto updates = MakeCrowd(spec,
                                 {.crowd = Crowd::kUniform,
                                  .arrival = Arrival::kCanonical,
                                  .entries = FewerUnderTsan(1'000'000)},
                                 3);
  const auto one = *MakeCpuBackend({.threads = 1, .memory_bytes = uint64_t{1} << 30});
  const auto expected = Reduce(*one, spec, updates, "sweep");
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_LT(expected->tensor.nnz(), EntriesOf(updates) / 2);
  for (const uint32_t threads : ThreadCounts()) {
    const auto cpu = *MakeCpuBackend({.threads = threads, .memory_bytes = uint64_t{1} << 30});
    for (const std::string plan : {"sweep", "partition"}) {
      EXPECT_EQ(Difference(expected, Reduce(*cpu, spec, updates, plan)), "")
          << plan << " with " << threads << " threads";
    }
  }
}

// The error of a checked integer that does not fit names the first row, not the first task's.
TEST(Threads, TheFirstOverflowIsTheErrorOfAll) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kI32, kSparseSpace, 1);
  auto updates = MakeCrowd(
      spec,
      {.crowd = Crowd::kUniform, .arrival = Arrival::kRepeated, .entries = FewerUnderTsan(110'000)},
      2);
  for (Update& update : updates) {
    update.weight = 1;
    for (size_t i = 0; i < update.rows.size(); i += 100) {
      // Twice the largest number, a thousand rows in all.
      auto* values = reinterpret_cast<int32_t*>(update.values.data());
      values[i] = values[i + 1] = std::numeric_limits<int32_t>::max();
      update.rows[i + 1] = update.rows[i];
    }
  }
  const auto reference = *MakeReferenceBackend({});
  const auto expected = Reduce(*reference, spec, updates);
  ASSERT_EQ(expected.status().code(), absl::StatusCode::kOutOfRange);
  for (const uint32_t threads : ThreadCounts()) {
    const auto cpu = *MakeCpuBackend({.threads = threads, .memory_bytes = uint64_t{1} << 30});
    for (const std::string& plan : PlansFor(*cpu, spec)) {
      EXPECT_EQ(Difference(expected, Reduce(*cpu, spec, updates, plan)), "")
          << plan << " with " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace sparseagg::testing

#include "cpu/windowed/window_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sparseagg {
namespace {

constexpr WindowTuning kTuning = {
    .dense_cells = 1 << 15, .sparse_entries = 1 << 15, .dense_rows_per_entry = 24, .ranges = 8};

// The windows follow one another over the whole index space, and so do the ranges over the windows.
void ExpectCovers(const WindowLayout& plan, uint64_t num_rows, const WindowTuning& tuning,
                  const std::string& what) {
  ASSERT_FALSE(plan.windows.empty()) << what;
  uint64_t at = 0;
  for (const RowWindow& window : plan.windows) {
    ASSERT_EQ(window.begin, at) << what;
    ASSERT_LT(window.begin, window.end) << what;
    at = window.end;
  }
  ASSERT_EQ(at, num_rows) << what;
  ASSERT_FALSE(plan.range_ends.empty()) << what;
  EXPECT_LE(plan.range_ends.size(), tuning.ranges) << what;
  size_t before = 0;
  for (size_t end : plan.range_ends) {
    EXPECT_LT(before, end) << what;
    before = end;
  }
  EXPECT_EQ(before, plan.windows.size()) << what;
}

// Returns a bound on the number of windows. A dense window has the entries that make it dense.
// Between two dense windows, sparse windows have the entries that they should have, except for one
// that ends where rows cluster.
double WindowsMax(size_t samples, double per_sample, const TensorLayout& layout,
                  const WindowTuning& tuning) {
  const double entries = static_cast<double>(samples) * per_sample;
  const double dense_rows =
      std::max(1.0, static_cast<double>(tuning.dense_cells) / layout.row_width);
  const double dense =
      std::min(entries * tuning.dense_rows_per_entry / dense_rows, static_cast<double>(samples));
  const double sparse =
      static_cast<double>(samples) /
      std::max(1.0, std::floor(static_cast<double>(tuning.sparse_entries) / per_sample));
  return 2 * dense + 2 * sparse + 4;
}

TEST(LayOutWindows, CoversTheIndexSpaceWhateverTheSampleSays) {
  std::mt19937_64 random(1);
  for (uint64_t num_rows : {uint64_t{1}, uint64_t{2}, uint64_t{1000}, uint64_t{1} << 17,
                            (uint64_t{1} << 40) + 1, kNumRowsMax - 1}) {
    std::vector<std::pair<std::string, std::vector<uint64_t>>> cases = {
        {"empty", {}},
        {"first row", std::vector<uint64_t>(20000, 0)},
        {"last row", std::vector<uint64_t>(20000, num_rows - 1)},
        {"one row", std::vector<uint64_t>(20000, num_rows / 3)},
        {"one entry", {num_rows - 1}}};
    auto& both = cases.emplace_back("first and last", std::vector<uint64_t>(10000, 0)).second;
    both.resize(20000, num_rows - 1);
    auto& uniform = cases.emplace_back("uniform", std::vector<uint64_t>()).second;
    auto& corner = cases.emplace_back("corner", std::vector<uint64_t>()).second;
    auto& powers = cases.emplace_back("powers of two", std::vector<uint64_t>()).second;
    for (int i = 0; i < 20000; ++i) {
      uniform.push_back(random() % num_rows);
      corner.push_back(random() % (i % 100 == 0 ? num_rows : std::min<uint64_t>(num_rows, 5000)));
      powers.push_back((uint64_t{1} << (random() % 63)) % num_rows);
    }
    for (auto& [name, samples] : cases) {
      std::sort(samples.begin(), samples.end());
      for (uint32_t width : {1u, 64u, 1u << 20}) {
        for (double per_sample : {1.0, 7.0, 128.0, 1e6}) {
          for (uint32_t ranges : {1u, 8u, 64u}) {
            WindowTuning tuning = kTuning;
            tuning.ranges = ranges;
            const TensorLayout layout{num_rows, width, ValueType::kF32};
            const WindowLayout plan = LayOutWindows(samples, per_sample, layout, tuning);
            const std::string what = absl::StrCat(name, " of ", num_rows, " rows, width ", width,
                                                  ", ", per_sample, " entries a sample");
            ExpectCovers(plan, num_rows, tuning, what);
            if (::testing::Test::HasFatalFailure()) return;
            EXPECT_LE(static_cast<double>(plan.windows.size()),
                      WindowsMax(samples.size(), per_sample, layout, tuning))
                << what;
          }
        }
      }
    }
  }
}

TEST(LayOutWindows, DenseWindowsHaveNoMoreCellsThanTheTuningAllows) {
  std::mt19937_64 random(2);
  std::vector<uint64_t> samples(50000);
  for (uint64_t& sample : samples) sample = random() % 100000;
  std::sort(samples.begin(), samples.end());
  for (uint32_t width : {1u, 16u, 4096u}) {
    const WindowLayout plan = LayOutWindows(samples, 10, {100000, width, ValueType::kF32}, kTuning);
    size_t dense = 0;
    for (const RowWindow& window : plan.windows) {
      if (!window.dense) continue;
      ++dense;
      EXPECT_LE((window.end - window.begin) * width,
                std::max<uint64_t>(kTuning.dense_cells, width));
    }
    EXPECT_GT(dense, 0u) << width;
  }
}

TEST(LayOutWindows, SparseWindowsExpectAboutTheEntriesOfTheTuning) {
  std::mt19937_64 random(3);
  constexpr double kPerSample = 16;
  std::vector<uint64_t> samples(40000);
  for (uint64_t& sample : samples) sample = random() >> 4;
  std::sort(samples.begin(), samples.end());
  const WindowLayout plan =
      LayOutWindows(samples, kPerSample, {uint64_t{1} << 60, 1, ValueType::kF32}, kTuning);
  EXPECT_GT(plan.windows.size(), 10u);
  for (const RowWindow& window : plan.windows) {
    EXPECT_FALSE(window.dense);
    const auto inside = std::lower_bound(samples.begin(), samples.end(), window.end) -
                        std::lower_bound(samples.begin(), samples.end(), window.begin);
    EXPECT_LE(static_cast<double>(inside) * kPerSample,
              static_cast<double>(kTuning.sparse_entries) + kPerSample);
  }
}

TEST(LayOutWindows, RangesHaveAboutAsManyEntriesEach) {
  std::mt19937_64 random(4);
  std::vector<uint64_t> samples(60000);
  for (uint64_t& sample : samples) sample = random() % (uint64_t{1} << 40);
  std::sort(samples.begin(), samples.end());
  const WindowLayout plan =
      LayOutWindows(samples, 128, {uint64_t{1} << 40, 1, ValueType::kF32}, kTuning);
  ASSERT_EQ(plan.range_ends.size(), kTuning.ranges);
  size_t before = 0;
  for (size_t end : plan.range_ends) {
    const auto inside =
        std::lower_bound(samples.begin(), samples.end(), plan.windows[end - 1].end) -
        std::lower_bound(samples.begin(), samples.end(), plan.windows[before].begin);
    EXPECT_LT(inside, static_cast<std::ptrdiff_t>(2 * samples.size() / kTuning.ranges));
    before = end;
  }
}

TEST(SampleRows, TakesRowsAtEvenDistancesOverAllSources) {
  std::vector<std::vector<uint64_t>> sources;
  uint64_t value = 0;
  for (size_t size : {1u, 0u, 7u, 1000u, 2u, 5000u}) {
    sources.emplace_back();
    for (size_t i = 0; i < size; ++i) sources.back().push_back(value++);
  }
  std::vector<Cursor> cursors;
  for (size_t k = 0; k + 1 < sources.size(); ++k) {
    cursors.push_back({.row = sources[k].data(), .end = sources[k].data() + sources[k].size()});
  }
  const RunCursor run{sources.back().data(), sources.back().data() + sources.back().size(), nullptr,
                      nullptr};
  double per_sample = 0;
  const std::vector<uint64_t> samples = SampleRows(cursors, run, 100, per_sample);
  // All rows are distinct and ascending over the sources, so distances of rows are those of
  // entries.
  EXPECT_EQ(per_sample, std::floor(static_cast<double>(value) / 100));
  EXPECT_NEAR(static_cast<double>(samples.size()), static_cast<double>(value) / per_sample, 1.0);
  ASSERT_GE(samples.size(), 2u);
  for (size_t i = 1; i < samples.size(); ++i) {
    EXPECT_EQ(static_cast<double>(samples[i] - samples[i - 1]), per_sample);
  }
}

TEST(SampleRows, SortsWhatIsNotSorted) {
  std::mt19937_64 random(5);
  std::vector<uint64_t> rows(3000);
  for (uint64_t& row : rows) row = random();
  const Cursor cursor{.row = rows.data(), .end = rows.data() + rows.size()};
  double per_sample = 0;
  const std::vector<uint64_t> all = SampleRows({&cursor, 1}, {}, rows.size(), per_sample);
  EXPECT_EQ(per_sample, 1.0);
  std::sort(rows.begin(), rows.end());
  EXPECT_EQ(all, rows);
  EXPECT_TRUE(SampleRows({}, {}, 100, per_sample).empty());
}

}  // namespace
}  // namespace sparseagg

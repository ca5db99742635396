// Speculative additions (cpu/kernels/speculative-inl.h): wherever in a group a sum is rounded, the
// group is undone and added again, so that cells and side entries together are exact. Speculative
// windows (cpu/windowed/speculation_backoff.h): the kernels report when a sum was rounded.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "cpu/kernels/kernels.h"
#include "cpu/kernels/rounding_flag.h"
#include "cpu/state/side_table.h"
#include "cpu/windowed/speculation_backoff.h"
#include "sparse/wide_integer.h"

namespace sparseagg {
namespace {

TEST(RoundingFlag, DistinguishesRoundedSumsFromExactOnes) {
  ASSERT_TRUE(RoundingFlag::Works());
  volatile double sum = 1.0;
  RoundingFlag::Clear();
  sum = sum + 0.5;
  EXPECT_FALSE(RoundingFlag::IsSet());
  sum = sum + 0x1p-60;
  EXPECT_TRUE(RoundingFlag::IsSet());
  RoundingFlag::Clear();
  EXPECT_FALSE(RoundingFlag::IsSet());
}

// Adds rows of which one in `one_in` values is too small for the sum that it is added to; 0: none.
void AddRows(uint32_t width, size_t rows, bool canonical, int one_in) {
  SCOPED_TRACE(testing::Message() << width << " columns, " << rows << " rows, canonical "
                                  << canonical << ", one in " << one_in);
  constexpr uint64_t kBegin = uint64_t{1} << 33;
  std::mt19937_64 random(7);
  const CpuKernels& kernels = *KernelsFor(ValueType::kF32, "sum");
  std::vector<double> cells(rows * width);
  const CellWindow window{kBegin, reinterpret_cast<std::byte*>(cells.data()), nullptr};
  kernels.clear(window, rows, width);
  std::vector<WideInteger> sums(cells.size());
  SideTable side;
  for (int update = 0; update < 6; ++update) {
    std::vector<uint64_t> at;
    std::vector<float> values;
    for (size_t i = 0; i < rows; ++i) {
      at.push_back(kBegin + (canonical ? i : random() % std::max<size_t>(1, rows / 4)));
      for (uint32_t c = 0; c < width; ++c) {
        float value = static_cast<float>(1 + random() % 1000);
        if (one_in > 0 && random() % one_in == 0) value = std::ldexp(value, -70);
        sums[(at.back() - kBegin) * width + c].Add(value);
        values.push_back(value);
      }
    }
    Cursor cursor{.row = at.data(),
                  .end = at.data() + at.size(),
                  .value = reinterpret_cast<const std::byte*>(values.data()),
                  .canonical = canonical};
    if (width == 1) {
      kernels.scatter({&cursor, 1}, ~uint64_t{0}, {}, window, side);
    } else {
      kernels.scatter_rows(cursor, ~uint64_t{0}, width, {0, width}, nullptr, window, side);
    }
    EXPECT_EQ(cursor.size(), 0u);
  }
  EXPECT_EQ(side.empty(), one_in == 0);
  for (const SideEntry& entry : side.Drain()) {
    sums[(entry.row - kBegin) * width + entry.column].AddScaled(-Int128{entry.significand},
                                                                entry.exponent);
  }
  for (size_t i = 0; i < cells.size(); ++i) {
    sums[i].Add(-cells[i]);
    ASSERT_EQ(sums[i], WideInteger()) << "cell " << i;
  }
}

TEST(Speculation, CellsAndSideEntriesAreExactWhereverItFails) {
  for (const uint32_t width : {1u, 3u, 16u, 64u, 600u, 1500u}) {
    for (const bool canonical : {true, false}) {
      for (const int one_in : {0, 2, 30, 1000}) AddRows(width, 4000 / width + 5, canonical, one_in);
    }
  }
}

// Cursors of one update each, and the entries that they refer to. Every fifth update has all rows.
struct Updates {
  static constexpr uint64_t kBegin = uint64_t{1} << 33;
  static constexpr size_t kRows = 300;
  static constexpr size_t kUpdates = 70;  // more than are added between two readings of the flag

  explicit Updates(uint32_t width) {
    std::mt19937_64 random(11);
    for (size_t u = 0; u < kUpdates; ++u) {
      for (size_t i = 0; i < kRows; ++i) {
        if (u % 5 != 0 && random() % 4 == 0) continue;
        rows[u].push_back(kBegin + i);
        weights[u].push_back(static_cast<float>(1 + random() % 3));
        for (uint32_t c = 0; c < width; ++c) {
          values[u].push_back(static_cast<float>(1 + random() % 1000));
        }
      }
    }
  }

  // Every third cursor has a weight for each entry.
  std::vector<Cursor> Cursors() const {
    std::vector<Cursor> cursors;
    for (size_t u = 0; u < kUpdates; ++u) {
      cursors.push_back({.row = rows[u].data(),
                         .end = rows[u].data() + rows[u].size(),
                         .value = reinterpret_cast<const std::byte*>(values[u].data()),
                         .weights = u % 3 == 0 ? weights[u].data() : nullptr,
                         .weight = 2.0f,
                         .canonical = true});
    }
    return cursors;
  }

  std::vector<uint64_t> rows[kUpdates];
  std::vector<float> values[kUpdates];
  std::vector<float> weights[kUpdates];
};

struct Window {
  Window(const CpuKernels& kernels, uint32_t width) : cells(Updates::kRows * width) {
    kernels.clear(view(), Updates::kRows, width);
  }
  CellWindow view() {
    return {Updates::kBegin, reinterpret_cast<std::byte*>(cells.data()), nullptr};
  }

  std::vector<double> cells;
};

bool ScatterSpeculatively(const CpuKernels& kernels, std::vector<Cursor>& cursors, uint64_t limit,
                          uint32_t width, Window& window) {
  RoundingFlag::Clear();
  if (width == 1) return kernels.scatter_speculatively(cursors, limit, {1, 2, {}}, window.view());
  for (size_t k = 0; k < cursors.size(); ++k) {
    const Cursor* next = &cursors[(k + 1) % cursors.size()];
    if (!kernels.scatter_rows_speculatively(cursors[k], limit, width, next, window.view())) {
      return false;
    }
  }
  return true;
}

TEST(SpeculativeWindow, HasTheCellsOfTheExactPath) {
  const CpuKernels& kernels = *KernelsFor(ValueType::kF32, "sum");
  for (const uint32_t width : {1u, 3u, 64u}) {
    SCOPED_TRACE(width);
    const Updates updates(width);
    std::vector<Cursor> speculative = updates.Cursors();
    std::vector<Cursor> exact = updates.Cursors();
    Window speculative_window(kernels, width);
    Window exact_window(kernels, width);
    SideTable side;
    for (const uint64_t limit : {Updates::kBegin + 101, Updates::kBegin + Updates::kRows}) {
      ASSERT_TRUE(ScatterSpeculatively(kernels, speculative, limit, width, speculative_window));
      for (size_t k = 0; k < exact.size(); ++k) {
        if (width == 1) {
          kernels.scatter({&exact[k], 1}, limit, {}, exact_window.view(), side);
        } else {
          kernels.scatter_rows(exact[k], limit, width, {0, width}, nullptr, exact_window.view(),
                               side);
        }
        ASSERT_EQ(speculative[k].row, exact[k].row);
        ASSERT_EQ(speculative[k].value, exact[k].value);
        ASSERT_EQ(speculative[k].weights, exact[k].weights);
      }
      ASSERT_EQ(speculative_window.cells, exact_window.cells);
    }
    EXPECT_TRUE(side.empty());
    EXPECT_EQ(speculative.front().size(), 0u);
  }
}

// The first and the last row show a run only where each row is there once.
TEST(Speculation, RowsThatRepeatAreNotAddedAsARun) {
  constexpr size_t kRows = 256;
  std::vector<uint64_t> rows(kRows);
  std::iota(rows.begin(), rows.end(), 0);
  rows[100] = 101;
  const std::vector<float> values(kRows, 3.0f);
  std::vector<double> expected(kRows, 3.0);
  expected[100] = -0.0;  // not held
  expected[101] = 6.0;
  const CpuKernels& kernels = *KernelsFor(ValueType::kF32, "sum");
  for (const bool whole_window : {false, true}) {
    std::vector<double> cells(kRows);
    const CellWindow window{0, reinterpret_cast<std::byte*>(cells.data()), nullptr};
    kernels.clear(window, kRows, 1);
    Cursor cursor{.row = rows.data(),
                  .end = rows.data() + kRows,
                  .value = reinterpret_cast<const std::byte*>(values.data())};
    SideTable side;
    RoundingFlag::Clear();
    if (whole_window) {
      EXPECT_TRUE(kernels.scatter_speculatively({&cursor, 1}, kRows, {}, window));
    } else {
      kernels.scatter({&cursor, 1}, kRows, {}, window, side);
    }
    EXPECT_TRUE(
        std::ranges::equal(std::as_bytes(std::span(cells)), std::as_bytes(std::span(expected))))
        << "whole window: " << whole_window;
  }
}

TEST(SpeculativeWindow, FailsWhereverASumIsRounded) {
  const CpuKernels& kernels = *KernelsFor(ValueType::kF32, "sum");
  for (const uint32_t width : {1u, 3u, 64u}) {
    for (const size_t update : {size_t{1}, size_t{40}, Updates::kUpdates - 1}) {
      for (const bool last : {false, true}) {
        SCOPED_TRACE(testing::Message() << width << " columns, update " << update << ", " << last);
        Updates updates(width);
        std::vector<float>& values = updates.values[update];
        // The first update has every row, so that something is lost.
        (last ? values.back() : values.front()) = 0x1p-60f;
        std::vector<Cursor> cursors = updates.Cursors();
        Window window(kernels, width);
        EXPECT_FALSE(ScatterSpeculatively(kernels, cursors, Updates::kBegin + Updates::kRows, width,
                                          window));
      }
    }
  }
}

TEST(SpeculativeWindow, ExistsForSumsWhoseProductsAreExact) {
  for (const ValueType type : kAllValueTypes) {
    const bool narrow =
        type == ValueType::kF16 || type == ValueType::kBF16 || type == ValueType::kF32;
    for (const char* op : {"sum", "weighted_mean", "mean_of_contributors", "max", "count"}) {
      const CpuKernels* kernels = KernelsFor(type, op);
      ASSERT_NE(kernels, nullptr) << op;
      const bool is_sum = std::string_view(op) == "sum" || std::string_view(op) == "weighted_mean";
      EXPECT_EQ(kernels->scatter_speculatively != nullptr, narrow && is_sum) << op;
      EXPECT_EQ(kernels->scatter_rows_speculatively != nullptr, narrow && is_sum) << op;
    }
  }
}

int SkippedWindows(SpeculationBackoff& backoff) {
  int windows = 0;
  while (!backoff.ShouldTry()) ++windows;
  return windows;
}

TEST(SpeculationBackoff, SkipsMoreWindowsAfterEachFailure) {
  SpeculationBackoff backoff;
  EXPECT_EQ(SkippedWindows(backoff), 0);
  for (const int skipped : {4, 8, 16, 32, 64, 64}) {
    backoff.Record(false);
    EXPECT_EQ(SkippedWindows(backoff), skipped);
  }
  backoff.Record(true);
  EXPECT_EQ(SkippedWindows(backoff), 0);
  backoff.Record(false);
  EXPECT_EQ(SkippedWindows(backoff), 4);
}

}  // namespace
}  // namespace sparseagg

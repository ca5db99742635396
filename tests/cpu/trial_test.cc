// Additions on trial (cpu/trial-inl.h): wherever in a group a sum is rounded, the group is undone
// and added again, so that cells and side entries together are exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "cpu/kernels.h"
#include "cpu/rounding_flag.h"
#include "cpu/side_table.h"
#include "sparse/wide_integer.h"

namespace sparseagg {
namespace {

TEST(RoundingFlag, TellsRoundedSumsFromExactOnes) {
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

// One in `one_in` values is too small for the sum that it is added to; 0: none is.
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
  for (const SideEntry& entry : side.Take()) {
    sums[(entry.row - kBegin) * width + entry.column].AddScaled(-Int128{entry.significand},
                                                                entry.exponent);
  }
  for (size_t i = 0; i < cells.size(); ++i) {
    sums[i].Add(-cells[i]);
    ASSERT_EQ(sums[i], WideInteger()) << "cell " << i;
  }
}

TEST(Trial, CellsAndSideEntriesAreExactWhereverATrialFails) {
  for (const uint32_t width : {1u, 3u, 16u, 64u, 600u, 1500u}) {
    for (const bool canonical : {true, false}) {
      for (const int one_in : {0, 2, 30, 1000}) AddRows(width, 4000 / width + 5, canonical, one_in);
    }
  }
}

}  // namespace
}  // namespace sparseagg

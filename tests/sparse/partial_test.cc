#include "sparse/partial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/status.h"
#include "sparse/window.h"
#include "tests/support/workload.h"

namespace sparseagg {
namespace {

using testing::MakeSpec;

// Returns the exact value of slot (row, 0); the width is 1.
WideInteger ValueOf(const Partial& partial, uint64_t row) {
  WideInteger value;
  const auto at = std::find(partial.rows.begin(), partial.rows.end(), row);
  if (at != partial.rows.end())
    value.AddScaled(partial.slots[at - partial.rows.begin()], partial.lsb);
  for (const SideEntry& entry : partial.side) {
    if (entry.row == row) value.AddScaled(entry.significand, entry.exponent);
  }
  return value;
}

Partial OneRow(double value, int32_t lsb) {
  Partial partial;
  partial.spec = MakeSpec("sum", ValueType::kF64, 100, 1);
  partial.contributors = 1;
  partial.addends = 1;
  partial.lsb = lsb;
  partial.rows = {7};
  partial.slots = {0};
  if (!ToFixed(value, lsb, partial.slots.data())) {
    const Scaled parts = Decompose(value);
    partial.side.push_back({7, 0, parts.exponent, parts.significand});
  }
  return partial;
}

TEST(Partial, RebasingKeepsEveryValue) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 5000; ++i) {
    const double value = std::ldexp(static_cast<double>(static_cast<int64_t>(random())), -70);
    Partial partial = OneRow(value, -90);
    const WideInteger before = ValueOf(partial, 7);
    Rebase(partial, static_cast<int32_t>(random() % 300) - 200);
    EXPECT_EQ(ValueOf(partial, 7), before);
    const UInt128 magnitude =
        partial.slots[0] < 0 ? -static_cast<UInt128>(partial.slots[0]) : partial.slots[0];
    EXPECT_LE(BitWidth(magnitude), kWindowValueBits) << "within the bound of one addend";
  }
}

TEST(Partial, MergingAddsValuesContributorsAndWeights) {
  Partial a = OneRow(1e-30, -120);
  a.total_weight.Add(0.1f);
  Partial b = OneRow(-3e30, 40);
  b.total_weight.Add(0.2f);
  b.rows = {9};
  const Partial merged = MergePartials(a, b);
  EXPECT_EQ(merged.contributors, 2u);
  EXPECT_EQ(merged.addends, 2u);
  EXPECT_EQ(merged.rows, (HostVector<uint64_t>{7, 9}));
  EXPECT_EQ(ValueOf(merged, 7).ToDouble(), 1e-30);
  EXPECT_EQ(ValueOf(merged, 9).ToDouble(), -3e30);
  EXPECT_EQ(merged.total_weight.ToDouble(), static_cast<double>(0.1f) + static_cast<double>(0.2f));
}

TEST(Partial, MergingTheSameRowOfFarWindowsIsExact) {
  const Partial merged = MergePartials(OneRow(1e30, 20), OneRow(1e-30, -150));
  WideInteger expected;
  expected.Add(1e30);
  expected.Add(1e-30);
  EXPECT_EQ(ValueOf(merged, 7), expected);
}

TEST(Partial, CompactingBoundsTheSideTableAndKeepsEveryValue) {
  std::mt19937_64 random(3);
  std::vector<SideEntry> side;
  WideInteger expected[3];
  for (uint64_t row = 0; row < 3; ++row) {
    for (int i = 0; i < 5000; ++i) {
      const auto significand = static_cast<int64_t>(random()) >> 10;
      const int exponent = static_cast<int>(random() % 1900) - 1000;
      side.push_back({row, 2, exponent, significand});
      expected[row].AddScaled(significand, exponent);
    }
  }
  CompactSide(side);
  EXPECT_LE(side.size(), 3u * 2 * WideInteger::kWords);
  WideInteger sums[3];
  for (const SideEntry& entry : side) {
    EXPECT_EQ(entry.column, 2u);
    sums[entry.row].AddScaled(entry.significand, entry.exponent);
  }
  for (int row = 0; row < 3; ++row) EXPECT_EQ(sums[row], expected[row]);
}

TEST(Partial, CompactingLeavesFewEntriesAlone) {
  std::vector<SideEntry> side = {{1, 0, -1000, 3}, {1, 0, 900, -5}, {2, 1, 0, 7}};
  const std::vector<SideEntry> before = side;
  CompactSide(side);
  EXPECT_EQ(side, before);
}

TEST(CheckMergeable, OnlyTheSameReductionMerges) {
  Partial a = OneRow(1, 0);
  Partial b = OneRow(1, 0);
  EXPECT_TRUE(CheckMergeable(a, b).ok());
  b.spec.op = "min";
  EXPECT_EQ(ErrorReason(CheckMergeable(a, b)), "SPEC_MISMATCH");
  b = OneRow(1, 0);
  b.spec.layout.num_rows = 101;
  EXPECT_EQ(ErrorReason(CheckMergeable(a, b)), "SPEC_MISMATCH");
  b = OneRow(1, 0);
  b.addends = kAddendsMax;
  EXPECT_EQ(ErrorReason(CheckMergeable(a, b)), "TOO_MANY_ENTRIES");
}

}  // namespace
}  // namespace sparseagg

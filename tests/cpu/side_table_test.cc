#include "cpu/state/side_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <utility>

#include "sparse/wide_integer.h"

namespace sparseagg {
namespace {

// A slot has at most the digits of a wide integer, 32 bits each.
constexpr size_t kDigitsMax = 2 * WideInteger::kWords;
// Entries that a table of a few slots may reach before they are summed up.
constexpr size_t kFewSlotsMax = size_t{1} << 17;

using Slot = std::pair<uint64_t, uint32_t>;
using Sums = std::map<Slot, WideInteger>;

Sums SumsOf(std::span<const SideEntry> entries) {
  Sums sums;
  for (const SideEntry& entry : entries) {
    sums[{entry.row, entry.column}].AddScaled(entry.significand, entry.exponent);
  }
  return sums;
}

bool IsSorted(std::span<const SideEntry> entries) {
  for (size_t i = 1; i < entries.size(); ++i) {
    if (std::pair(entries[i].row, entries[i].column) <
        std::pair(entries[i - 1].row, entries[i - 1].column)) {
      return false;
    }
  }
  return true;
}

double AnyDouble(std::mt19937_64& random) {
  for (;;) {
    const double value = BitCast<double>(random());
    if (std::isfinite(value)) return value;
  }
}

TEST(SideTable, StaysBoundedHoweverManyEntriesAFewSlotsGet) {
  std::mt19937_64 random(1);
  SideTable side;
  Sums expected;
  size_t largest = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const Slot slot(random() % 3 * 1000, static_cast<uint32_t>(random() % 2));
    const double value = AnyDouble(random);
    side.Push(slot.first, slot.second, value);
    expected[slot].Add(value);
    largest = std::max(largest, side.size());
  }
  EXPECT_LE(largest, kFewSlotsMax);
  const std::vector<SideEntry> entries = side.Drain();
  EXPECT_LE(entries.size(), expected.size() * kDigitsMax);
  EXPECT_TRUE(IsSorted(entries));
  EXPECT_EQ(SumsOf(entries), expected);
  EXPECT_TRUE(side.empty());
}

// More slots than the table's first limit: it has to grow, but not faster than what it holds.
TEST(SideTable, GrowsWithTheSlotsThatItHas) {
  constexpr uint64_t kSlots = 100'000;
  std::mt19937_64 random(2);
  SideTable side;
  Sums expected;
  for (int i = 0; i < 500'000; ++i) {
    const uint64_t row = random() % kSlots;
    const double value = std::ldexp(1.0 + static_cast<double>(random() % 1000), -60);
    side.Push(row, 0, value);
    expected[{row, 0}].Add(value);
    ASSERT_LE(side.size(), 2 * kSlots * 17);  // runs of up to 16 entries stay as they are
  }
  EXPECT_EQ(SumsOf(side.Drain()), expected);
}

TEST(SideTable, ZerosAreNoEntries) {
  SideTable side;
  side.Push(1, 2, 0.0);
  side.Push(1, 2, -0.0);
  EXPECT_TRUE(side.empty());
  EXPECT_TRUE(side.Drain().empty());
}

TEST(SideTable, KeepsEveryDoubleExactly) {
  for (double value : {0x1p-1074, -0x1p-1074, 0x1.fffffffffffffp1023, -1.5, 0x1.8p-1022}) {
    SideTable side;
    side.Push(5, 7, value);
    WideInteger expected;
    expected.Add(value);
    EXPECT_EQ(SumsOf(side.entries()), (Sums{{{5, 7}, expected}})) << value;
  }
}

TEST(SideTable, SortsByRowThenColumn) {
  SideTable side;
  for (uint64_t row : {9u, 3u, 5u, 3u}) {
    for (uint32_t column : {1u, 0u}) side.Push(row, column, 1.0);
  }
  side.Sort();
  EXPECT_TRUE(IsSorted(side.entries()));
  EXPECT_EQ(side.size(), 8u);
}

TEST(SideTable, AppendedEntriesCountLikePushedOnes) {
  SideTable one;
  one.Push(4, 0, 1.0);
  one.Push(2, 0, 3.0);
  const std::vector<SideEntry> entries = one.Drain();
  SideTable two;
  two.Push(4, 0, 0x1p-300);
  two.Append(entries);
  Sums expected;
  expected[{4, 0}].Add(1.0);
  expected[{4, 0}].Add(0x1p-300);
  expected[{2, 0}].Add(3.0);
  const std::vector<SideEntry> both = two.Drain();
  EXPECT_TRUE(IsSorted(both));
  EXPECT_EQ(SumsOf(both), expected);
}

}  // namespace
}  // namespace sparseagg

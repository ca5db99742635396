#include "cpu/state/key_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "sparse/types.h"

namespace sparseagg {
namespace {

TEST(SortKeys, SortsAnyNumberOfKeys) {
  std::mt19937_64 random(1);
  for (size_t n : {0u, 1u, 2u, 3u, 31u, 64u, 1000u, 100000u}) {
    std::vector<uint64_t> keys(n);
    for (uint64_t& key : keys) key = random() >> (random() % 64);
    std::vector<uint64_t> expected = keys;
    std::sort(expected.begin(), expected.end());
    SortKeys(keys.data(), n);
    EXPECT_EQ(keys, expected) << n;
  }
}

// Makes keys whose bits above the positions come from `draw`.
template <class Draw>
void ExpectSortedByDigits(size_t n, int position_bits, const Draw& draw) {
  std::vector<uint64_t> keys(n);
  for (size_t i = 0; i < n; ++i) keys[i] = draw() << position_bits | i;
  std::vector<uint64_t> expected = keys;
  std::sort(expected.begin(), expected.end());
  std::vector<uint64_t> either = keys;
  SortByDigits(keys.data(), n, position_bits);
  EXPECT_EQ(keys, expected);
  SortWithPositions(either.data(), n, position_bits);
  EXPECT_EQ(either, expected);
}

TEST(SortByDigits, SortsKeysOfAnyWidth) {
  std::mt19937_64 random(4);
  for (size_t n : {0u, 1u, 2u, 3u, 1023u, 1024u, 100001u}) {
    // 64 - 17: all bits of a key. The highest are the same in all of them, and not zero.
    for (int bits : {0, 1, 7, 11, 12, 22, 23, 33, 45}) {
      SCOPED_TRACE(testing::Message() << n << " keys, " << bits << " bits");
      const uint64_t high = uint64_t{1} << 46;
      ExpectSortedByDigits(n, 17, [&] { return high | random() >> 1 >> (63 - bits); });
    }
  }
}

// Nearly all keys have the same highest digits: what two passes leave unsorted is sorted, too.
TEST(SortByDigits, SortsClusteredKeys) {
  std::mt19937_64 random(5);
  for (size_t n : {200u, 5000u, 200000u}) {
    SCOPED_TRACE(n);
    for (uint64_t neighbours : {1u, 2u, 10u, 1000u, 1000000u}) {
      SCOPED_TRACE(neighbours);
      size_t drawn = 0;
      ExpectSortedByDigits(n, 18, [&] {
        const uint64_t far = ++drawn % 100 == 0 ? random() >> 18 : 0;
        return far + random() % neighbours;
      });
    }
  }
}

TEST(SortByDigits, SortsMoreThanItKeepsMemoryFor) {
  std::mt19937_64 random(6);
  ExpectSortedByDigits(1 << 20, 21, [&] { return random() >> 30; });
  ExpectSortedByDigits((1 << 20) + 1, 21, [&] { return random() >> 30; });
}

// Writes what the kernels write when they pack an entry.
void Pack(uint64_t row, PackedWindow& packed) {
  packed.keys[packed.size] = packed.KeyOf(row, packed.size);
  if (packed.drop > 0) packed.rows[packed.size] = row;
  ++packed.size;
}

void ExpectSorted(uint64_t begin, uint64_t end, size_t capacity, const std::vector<uint64_t>& rows,
                  PackedWindow& packed) {
  ASSERT_LE(rows.size(), capacity);
  StartPacking(begin, end, capacity, 1, 8, 8, packed);
  ASSERT_GE(packed.values.size(), capacity * 8);
  ASSERT_GE(packed.row_cells.size(), capacity * 8);
  for (uint64_t row : rows) Pack(row, packed);
  SortPacked(packed);
  std::vector<bool> seen(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t position = packed.PositionOf(packed.keys[i]);
    ASSERT_LT(position, rows.size());
    ASSERT_FALSE(seen[position]);
    seen[position] = true;
    ASSERT_EQ(packed.RowOf(packed.keys[i]), rows[position]);
    ASSERT_TRUE(i == 0 || packed.RowOf(packed.keys[i - 1]) <= rows[position]) << "key " << i;
  }
}

TEST(SortPacked, SortsTheRowsOfAnyWindow) {
  std::mt19937_64 random(2);
  PackedWindow packed;  // used again, as the reducers do
  for (uint64_t begin : {uint64_t{0}, uint64_t{12345}, uint64_t{1} << 61}) {
    for (int bits : {0, 1, 10, 40, 47, 50, 62}) {
      const uint64_t rows_max = uint64_t{1} << bits;
      for (size_t capacity : {1u, 2u, 3u, 1000u, 1u << 17}) {
        std::vector<uint64_t> rows(std::min<size_t>(capacity, 5000));
        for (uint64_t& row : rows) row = begin + random() % rows_max;
        ExpectSorted(begin, begin + rows_max, capacity, rows, packed);
        if (HasFatalFailure()) FAIL() << "begin " << begin << " bits " << bits;
      }
    }
  }
}

// In a window this large, keys tell only every 2^drop-th row apart.
TEST(SortPacked, SortsNeighboursInTheWidestWindow) {
  std::mt19937_64 random(3);
  PackedWindow packed;
  constexpr size_t kCapacity = size_t{1} << 17;
  const uint64_t end = kNumRowsMax - 1;
  std::vector<uint64_t> rows;
  for (uint64_t centre : {uint64_t{0}, end / 3, end - 1000}) {
    for (int i = 0; i < 3000; ++i) rows.push_back(centre + random() % 1000);
  }
  std::shuffle(rows.begin(), rows.end(), random);
  ExpectSorted(0, end, kCapacity, rows, packed);
  EXPECT_GT(packed.drop, 10);
  // A window that follows it, and whose keys tell all rows apart.
  for (uint64_t& row : rows) row %= 1000;
  ExpectSorted(0, 1000, kCapacity, rows, packed);
  EXPECT_EQ(packed.drop, 0);
}

TEST(StartPacking, WideRowsAreReferences) {
  PackedWindow packed;
  StartPacking(0, 100, 50, 4, 8, 0, packed);
  EXPECT_GE(packed.refs.size(), 50u);
  EXPECT_EQ(packed.capacity, 50u);
  EXPECT_EQ(packed.size, 0u);
}

}  // namespace
}  // namespace sparseagg

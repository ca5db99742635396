// Indices are packed as the core packs them, whatever their order, and values follow.
#include "python/native/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "sparse/encodings/coo_packed.h"

namespace sparseagg::native {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kUnbounded = ~uint64_t{0};

std::string Packed(Packing& packing) {
  std::string packed(packing.packed_bytes(), '\0');
  packing.TakePacked(packed.data());
  return packed;
}

// The order in which `rows` ascend; equal ones keep theirs.
std::vector<uint64_t> OrderOf(const std::vector<int64_t>& rows) {
  std::vector<uint64_t> order(rows.size());
  std::iota(order.begin(), order.end(), uint64_t{0});
  std::ranges::stable_sort(order, {}, [&](uint64_t entry) { return rows[entry]; });
  return order;
}

std::string ExpectedBytes(const std::vector<int64_t>& rows) {
  std::vector<uint64_t> sorted(rows.begin(), rows.end());
  std::ranges::sort(sorted);
  std::string packed;
  AppendPackedIndices(sorted.data(), sorted.size(), packed);
  return packed;
}

std::vector<int64_t> RandomRows(uint64_t nnz, int64_t num_rows, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int64_t> row(0, num_rows - 1);
  std::vector<int64_t> rows(nnz);
  for (int64_t& each : rows) each = row(random);
  return rows;
}

// Compares indices, and values of three bytes that are read in pieces.
void ExpectPacks(const std::vector<int64_t>& rows, int64_t num_rows, uint64_t bytes_max) {
  const IndexArray indices = {rows.data(), &num_rows, rows.size(), 1, false};
  const auto packing = Packing::Make(indices, bytes_max);
  ASSERT_NE(packing, nullptr);
  EXPECT_EQ(packing->is_in_order(), std::ranges::is_sorted(rows));
  EXPECT_EQ(Packed(*packing), ExpectedBytes(rows));
  if (packing->is_in_order()) return;
  std::string values(3 * rows.size(), '\0');
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<char>(i * 7 + i / 251);
  std::string expected;
  for (const uint64_t entry : OrderOf(rows)) expected += values.substr(3 * entry, 3);
  std::string found(values.size(), '\0');
  const uint64_t step = rows.size() / 7 + 1;
  for (uint64_t begin = 0; begin < rows.size(); begin += step) {
    const uint64_t end = std::min<uint64_t>(begin + step, rows.size());
    packing->CopyValues(values.data(), 3, begin, end, found.data() + 3 * begin);
  }
  EXPECT_TRUE(found == expected);
}

TEST(PackingTest, EverySizeInAndOutOfOrder) {
  for (const uint64_t nnz : {1, 2, 255, 256, 257, 4095, 4096, 4097, 10'000}) {
    std::vector<int64_t> rows = RandomRows(nnz, 5000, nnz);
    ExpectPacks(rows, 5000, kUnbounded);
    std::ranges::sort(rows);
    ExpectPacks(rows, 5000, kUnbounded);
    std::ranges::reverse(rows);
    ExpectPacks(rows, 5000, kUnbounded);
  }
}

TEST(PackingTest, ManyRangesInLittleMemory) {
  const std::vector<int64_t> rows = RandomRows(1'000'000, 3'000'000, 1);
  ExpectPacks(rows, 3'000'000, 4 * kMiB);  // three ranges
}

TEST(PackingTest, RowsFarApart) {
  ExpectPacks(RandomRows(20'000, int64_t{1} << 48, 2), int64_t{1} << 48, kUnbounded);
}

TEST(PackingTest, SeveralDimensionsOfEitherType) {
  const std::vector<int64_t> shape = {40, 30, 50};
  const std::vector<int64_t> rows = RandomRows(3000, 40 * 30 * 50, 3);
  std::vector<int64_t> wide;
  for (const int64_t row : rows) {
    wide.insert(wide.end(), {row / 1500, row / 50 % 30, row % 50});
  }
  const std::vector<int32_t> narrow(wide.begin(), wide.end());
  const auto of_wide = Packing::Make({wide.data(), shape.data(), 3000, 3, false}, kUnbounded);
  const auto of_narrow = Packing::Make({narrow.data(), shape.data(), 3000, 3, true}, kUnbounded);
  EXPECT_EQ(Packed(*of_wide), ExpectedBytes(rows));
  EXPECT_EQ(Packed(*of_narrow), ExpectedBytes(rows));
}

TEST(PackingTest, WhatDoesNotFitIsNotPacked) {
  int64_t num_rows = int64_t{1} << 62;
  std::vector<int64_t> rows = RandomRows(100'000, num_rows, 4);
  const auto make = [&](uint64_t bytes_max) {
    return Packing::Make({rows.data(), &num_rows, rows.size(), 1, false}, bytes_max);
  };
  EXPECT_EQ(make(kUnbounded), nullptr);  // row and position have too many bits
  std::ranges::sort(rows);
  EXPECT_NE(make(kMiB), nullptr);
  EXPECT_EQ(make(kMiB / 4), nullptr);  // the packed indices are larger
  rows = RandomRows(100'000, 1'000'000, 5);
  num_rows = 1'000'000;
  EXPECT_NE(make(2 * kMiB), nullptr);
  EXPECT_EQ(make(kMiB), nullptr);  // sorting takes 800,000 bytes, two thirds of it are fewer
  rows.assign(5'000'000, 7);
  rows.front() = 8;
  EXPECT_EQ(make(kUnbounded), nullptr);  // one row has more entries than a range
}

}  // namespace
}  // namespace sparseagg::native

#include "sparse/streaming.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace sparseagg {
namespace {

constexpr uint64_t kCount = 50;
constexpr uint64_t kUntouched = 0x7777777777777777;

// Indices as bytes at an odd address.
template <class Index>
struct UnalignedIndices {
  explicit UnalignedIndices(const std::vector<Index>& indices)
      : bytes(1 + indices.size() * sizeof(Index), '\0') {
    std::memcpy(bytes.data() + 1, indices.data(), bytes.size() - 1);
  }
  const char* begin() const { return bytes.data() + 1; }
  std::string bytes;
};

// Expects that StreamRows() and CopyRows() find and write the same, for every alignment of the
// destination.
template <class Index>
void ExpectCopied(const std::vector<Index>& indices, uint64_t highest, uint64_t last) {
  const UnalignedIndices<Index> sent(indices);
  const uint64_t count = indices.size();
  std::vector<uint64_t> copied(count);
  RowFlags by_copy;
  CopyRows<Index>(sent.begin(), count, highest, last, copied.data(), by_copy);
  for (uint64_t at = 0; at < 9; ++at) {
    std::vector<uint64_t> rows(count + 20, kUntouched);
    RowFlags flags;
    StreamRows<Index>(sent.begin(), count, highest, last, rows.data() + at, flags);
    ASSERT_EQ(flags.all_in_range(), by_copy.all_in_range());
    for (uint64_t i = 0; i < at; ++i) ASSERT_EQ(rows[i], kUntouched);
    for (uint64_t i = at + count; i < rows.size(); ++i) ASSERT_EQ(rows[i], kUntouched);
    if (!flags.all_in_range()) continue;
    ASSERT_EQ(flags.order(), by_copy.order());
    ASSERT_EQ(std::vector<uint64_t>(rows.begin() + at, rows.begin() + at + count), copied);
  }
}

// The same for rows of which only the lowest bits are kept.
template <class Index>
void ExpectLowRows(const std::vector<Index>& indices, uint64_t highest, uint64_t last) {
  constexpr uint16_t kUntouchedLow = 0x7777;
  const UnalignedIndices<Index> sent(indices);
  const uint64_t count = indices.size();
  RowFlags by_copy;
  std::vector<uint64_t> rows(count);
  CopyRows<Index>(sent.begin(), count, highest, last, rows.data(), by_copy);
  for (uint64_t at = 0; at < 33; ++at) {
    std::vector<uint16_t> low(count + 80, kUntouchedLow);
    RowFlags flags;
    StreamRows<Index>(sent.begin(), count, highest, last, low.data() + at, flags);
    ASSERT_EQ(flags.all_in_range(), by_copy.all_in_range());
    for (uint64_t i = 0; i < at; ++i) ASSERT_EQ(low[i], kUntouchedLow);
    for (uint64_t i = at + count; i < low.size(); ++i) ASSERT_EQ(low[i], kUntouchedLow);
    if (!flags.all_in_range()) continue;
    ASSERT_EQ(flags.order(), by_copy.order());
    for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(low[at + i], rows[i] & 0xFFFF) << i;
    RowFlags by_low_copy;
    std::vector<uint16_t> copied(count);
    CopyRows<Index>(sent.begin(), count, highest, last, copied.data(), by_low_copy);
    ASSERT_EQ(by_low_copy.order(), by_copy.order());
    ASSERT_TRUE(std::equal(copied.begin(), copied.end(), low.begin() + at));
  }
}

template <class Index>
class StreamRowsTest : public ::testing::Test {
 protected:
  // Returns ascending indices, 10 apart.
  static std::vector<Index> Ascending(uint64_t count) {
    std::vector<Index> indices(count);
    for (uint64_t i = 0; i < count; ++i) indices[i] = static_cast<Index>(10 * i + 10);
    return indices;
  }
};
using Indices = ::testing::Types<int32_t, int64_t>;
TYPED_TEST_SUITE(StreamRowsTest, Indices);

TYPED_TEST(StreamRowsTest, CopiesAnyNumberOfThem) {
  for (uint64_t count = 1; count <= kCount; ++count) {
    ExpectCopied(this->Ascending(count), 10 * count, std::numeric_limits<uint64_t>::max());
    ExpectCopied(this->Ascending(count), 10 * count, 9);
    ExpectCopied(this->Ascending(count), 10 * count, 10);
    ExpectCopied(this->Ascending(count), 10 * count, 11);
  }
}

TYPED_TEST(StreamRowsTest, SeesWhatIsOutOfRangeAnywhere) {
  constexpr TypeParam kLeast = std::numeric_limits<TypeParam>::min();
  constexpr TypeParam kMost = std::numeric_limits<TypeParam>::max();
  for (uint64_t at = 0; at < kCount; ++at) {
    for (const TypeParam index : {TypeParam{-1}, kLeast, TypeParam{10 * kCount + 1}, kMost}) {
      auto indices = this->Ascending(kCount);
      indices[at] = index;
      const UnalignedIndices<TypeParam> sent(indices);
      std::vector<uint64_t> rows(kCount);
      RowFlags flags;
      StreamRows<TypeParam>(sent.begin(), kCount, 10 * kCount, 0, rows.data(), flags);
      EXPECT_FALSE(flags.all_in_range()) << index << " at " << at;
      ExpectCopied(indices, 10 * kCount, 0);
    }
    // The largest index of a type is in range if the dimension is larger.
    auto indices = this->Ascending(kCount);
    indices[at] = kMost;
    ExpectCopied(indices, std::numeric_limits<int64_t>::max(), 0);
    ExpectCopied(indices, static_cast<uint64_t>(kMost) - 1, 0);
  }
  // A dimension without rows.
  ExpectCopied(this->Ascending(kCount), std::numeric_limits<uint64_t>::max(), 0);
}

TYPED_TEST(StreamRowsTest, SeesWhatIsOutOfOrderAnywhere) {
  for (uint64_t at = 1; at < kCount; ++at) {
    for (const int step : {-1, 0, 1}) {
      auto indices = this->Ascending(kCount);
      indices[at] = static_cast<TypeParam>(indices[at - 1] + step);
      const UnalignedIndices<TypeParam> sent(indices);
      std::vector<uint64_t> rows(kCount);
      RowFlags flags;
      StreamRows<TypeParam>(sent.begin(), kCount, 10 * kCount, 0, rows.data(), flags);
      EXPECT_EQ(flags.order(), step < 0    ? EntryOrder::kUnsorted
                               : step == 0 ? EntryOrder::kSorted
                                           : EntryOrder::kCanonical);
      ExpectCopied(indices, 10 * kCount, 0);
    }
  }
}

TYPED_TEST(StreamRowsTest, KeepsTheLowestBits) {
  constexpr uint64_t kHighest = std::numeric_limits<int64_t>::max();
  for (uint64_t count = 1; count <= 150; ++count) {
    auto indices = this->Ascending(count);
    ExpectLowRows(indices, kHighest, 9);
    ExpectLowRows(indices, 10 * count, 11);
    ExpectLowRows(indices, 10 * count - 1, 11);
    for (TypeParam& index : indices) index = static_cast<TypeParam>(index * 9973 + 32'000);
    ExpectLowRows(indices, kHighest, std::numeric_limits<uint64_t>::max());
    for (const TypeParam wrong : {TypeParam{-1}, TypeParam{5}, indices[0]}) {
      auto others = indices;
      others[count / 2] = wrong;
      ExpectLowRows(others, kHighest, 0);
    }
  }
}

TYPED_TEST(StreamRowsTest, AgreesOnAnything) {
  std::mt19937_64 random(1);
  for (int turn = 0; turn < 300; ++turn) {
    std::vector<TypeParam> indices(1 + random() % kCount);
    for (TypeParam& index : indices) index = static_cast<TypeParam>(random() >> random() % 64);
    ExpectCopied(indices, random() >> 1, random());
    ExpectLowRows(indices, random() >> 1, random());
  }
}

}  // namespace
}  // namespace sparseagg

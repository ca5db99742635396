// Joined bitmaps equal the bitmaps that were appended, bit for bit, wherever each begins.
#include "cpu/dense/joined_bits.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace sparseagg {
namespace {

// A bitmap of rows, in whole words.
struct Bitmap {
  explicit Bitmap(const std::vector<uint64_t>& rows) : words((rows.back() - rows[0]) / 32 + 1) {
    for (const uint64_t row : rows) {
      words[(row - rows[0]) / 32] |= uint32_t{1} << (row - rows[0]) % 32;
    }
    bits = {rows[0], rows.back(), reinterpret_cast<const unsigned char*>(words.data()),
            static_cast<uint32_t>(rows.size())};
  }
  std::vector<uint32_t> words;
  PackedRows::Bits bits;
};

std::vector<uint64_t> RowsOf(const PackedRows::Bits& bits) {
  std::vector<uint64_t> rows;
  for (uint64_t k = 0; k <= bits.last - bits.first; ++k) {
    if ((bits.bytes[k / 8] >> k % 8 & 1) != 0) rows.push_back(bits.first + k);
  }
  return rows;
}

TEST(JoinedBitsTest, HasTheRowsOfAll) {
  std::mt19937_64 random(7);
  for (int run = 0; run < 300; ++run) {
    JoinedBits joined;
    std::vector<uint64_t> all;
    uint64_t row = random() % 10'000;
    for (;;) {
      std::vector<uint64_t> rows;
      const uint64_t count = 1 + random() % 300;
      for (uint64_t i = 0; i < count; ++i, row += 1 + random() % 3) rows.push_back(row);
      row += random() % 3 == 0 ? random() % 200 : 0;
      const Bitmap bitmap(rows);
      if (!joined.Append(bitmap.bits)) {
        EXPECT_GE(rows.back() - all[0], JoinedBits::kRowsMax);
        break;
      }
      all.insert(all.end(), rows.begin(), rows.end());
    }
    ASSERT_EQ(RowsOf(joined.rows()), all);
    EXPECT_EQ(joined.rows().count, all.size());
    uint64_t beyond;  // a kernel may read them
    const uint64_t bytes = (joined.rows().last - joined.rows().first) / 8 + 1;
    std::memcpy(&beyond, joined.rows().bytes + bytes, sizeof(beyond));
    EXPECT_EQ(beyond, 0u);
  }
}

TEST(JoinedBitsTest, IsFullToTheLastRow) {
  const std::vector<uint32_t> words(JoinedBits::kRowsMax / 32, ~0u);
  const auto* bytes = reinterpret_cast<const unsigned char*>(words.data());
  const uint64_t last = 5 + JoinedBits::kRowsMax - 1;
  JoinedBits joined;
  EXPECT_FALSE(joined.Append({5, last + 1, bytes, JoinedBits::kRowsMax}));
  EXPECT_EQ(joined.rows().count, 0u);
  ASSERT_TRUE(joined.Append({5, last, bytes, JoinedBits::kRowsMax}));
  EXPECT_EQ(RowsOf(joined.rows()).size(), JoinedBits::kRowsMax);
  const Bitmap next({last + 1});
  EXPECT_FALSE(joined.Append(next.bits));
  EXPECT_EQ(joined.rows().last, last);
}

// A block of an update may begin at the last row of the block before: one row then has two entries,
// and one bit cannot stand for both.
class SharedRowTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  bool Append(const std::vector<uint64_t>& rows) { return joined_.Append(Bitmap(rows).bits); }
  JoinedBits joined_;
};

TEST_P(SharedRowTest, IsNotAppendedAgain) {
  std::vector<uint64_t> all(GetParam());
  std::iota(all.begin(), all.end(), uint64_t{100});
  const uint64_t last = all.back();
  ASSERT_TRUE(Append(all));
  EXPECT_FALSE(Append({last, last + 3}));
  EXPECT_FALSE(Append({last}));
  EXPECT_EQ(RowsOf(joined_.rows()), all);
  EXPECT_EQ(joined_.rows().count, all.size());
  EXPECT_TRUE(Append({last + 1, last + 3}));
  all.insert(all.end(), {last + 1, last + 3});
  EXPECT_EQ(RowsOf(joined_.rows()), all);
}

INSTANTIATE_TEST_SUITE_P(Sizes, SharedRowTest,
                         ::testing::Values(1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 255, 256));

}  // namespace
}  // namespace sparseagg

#include "sparse/rows/narrow_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace sparseagg {
namespace {

constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

template <class Index>
class NarrowRowsTest : public ::testing::Test {
 protected:
  // Returns ascending rows, some of them equal if `repeats`.
  static std::vector<Index> Sorted(uint64_t count, uint64_t num_rows, bool repeats,
                                   std::mt19937_64& random) {
    std::vector<Index> rows(count);
    for (Index& row : rows) row = static_cast<Index>(random() % num_rows);
    std::sort(rows.begin(), rows.end());
    if (repeats) return rows;
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    return rows;
  }

  // Appends in pieces of up to `piece_max` rows, each at an unaligned address. Returns false when
  // one was refused.
  bool Append(NarrowRows& narrow, const std::vector<Index>& rows, uint64_t piece_max,
              std::mt19937_64& random) {
    uint64_t at = 0;
    while (at < rows.size()) {
      const uint64_t count = std::min<uint64_t>(rows.size() - at, 1 + random() % piece_max);
      std::string bytes(1, '\0');
      bytes.append(reinterpret_cast<const char*>(rows.data() + at), count * sizeof(Index));
      const uint64_t last = at == 0 ? kNone : static_cast<uint64_t>(rows[at - 1]);
      if (!narrow.Append<Index>(bytes.data() + 1, count, last, flags_)) return false;
      at += count;
    }
    return true;
  }

  static std::vector<uint64_t> AllOf(const NarrowRows& narrow, uint64_t num_rows) {
    std::vector<uint64_t> rows;
    for (uint64_t s = 0; s << NarrowRows::kSegmentBits < num_rows; ++s) {
      const NarrowRows::Segment segment = narrow.segment(s);
      EXPECT_EQ(segment.begin, rows.size()) << "segment " << s;
      for (uint64_t e = segment.begin; e < segment.end; ++e) {
        rows.push_back((s << NarrowRows::kSegmentBits) + segment.rows[e - segment.begin]);
      }
    }
    return rows;
  }

  RowFlags flags_;
};
using Indices = ::testing::Types<int32_t, int64_t>;
TYPED_TEST_SUITE(NarrowRowsTest, Indices);

TYPED_TEST(NarrowRowsTest, GivesTheAppendedRowsForAnyPieces) {
  std::mt19937_64 random(1);
  for (const uint64_t num_rows : {uint64_t{1}, uint64_t{65'535}, uint64_t{65'536}, uint64_t{65'537},
                                  uint64_t{1'000'003}, uint64_t{1} << 31}) {
    for (const bool repeats : {false, true}) {
      const auto rows = this->Sorted(5000, num_rows, repeats, random);
      const auto narrow = NarrowRows::Make(num_rows, rows.size());
      this->flags_ = {};
      ASSERT_TRUE(this->Append(*narrow, rows, 700, random));
      EXPECT_EQ(narrow->size(), rows.size());
      const std::vector<uint64_t> expected(rows.begin(), rows.end());
      EXPECT_EQ(this->AllOf(*narrow, num_rows), expected);
      for (const uint64_t entry : {uint64_t{0}, expected.size() / 2, expected.size() - 1}) {
        EXPECT_EQ(narrow->RowOf(entry), expected[entry]);
      }
      const bool distinct = std::adjacent_find(rows.begin(), rows.end()) == rows.end();
      EXPECT_EQ(this->flags_.order(), distinct ? EntryOrder::kCanonical : EntryOrder::kSorted);
      EXPECT_EQ(narrow->wide(), nullptr);
    }
  }
}

TYPED_TEST(NarrowRowsTest, RefusesRowsOutOfOrderOrRange) {
  constexpr uint64_t kCount = 300;
  constexpr TypeParam kLeast = std::numeric_limits<TypeParam>::min();
  constexpr TypeParam kMost = std::numeric_limits<TypeParam>::max();
  for (uint64_t at = 0; at < kCount; ++at) {
    for (const TypeParam wrong : {TypeParam{-1}, kLeast, kMost, TypeParam{4'000}}) {
      std::vector<TypeParam> rows(kCount);
      for (uint64_t i = 0; i < kCount; ++i) rows[i] = static_cast<TypeParam>(10 * i + 1000);
      rows[at] = wrong;
      const auto narrow = NarrowRows::Make(4000, kCount);
      const auto* bytes = reinterpret_cast<const char*>(rows.data());
      EXPECT_FALSE(narrow->Append<TypeParam>(bytes, kCount, kNone, this->flags_)) << wrong;
      EXPECT_EQ(narrow->size(), 0u);
      EXPECT_EQ(this->flags_.order(), EntryOrder::kCanonical) << "as if it had not been appended";
    }
    if (at == 0) continue;
    std::vector<TypeParam> rows(kCount, 7);
    for (uint64_t i = 0; i < kCount; ++i) rows[i] = static_cast<TypeParam>(i < at ? i + 10 : i + 8);
    const auto narrow = NarrowRows::Make(4000, kCount);
    const auto* bytes = reinterpret_cast<const char*>(rows.data());
    EXPECT_FALSE(narrow->Append<TypeParam>(bytes, kCount, kNone, this->flags_));
    ASSERT_TRUE(narrow->Append<TypeParam>(bytes, at, kNone, this->flags_)) << "the rows before it";
    EXPECT_FALSE(narrow->Append<TypeParam>(bytes + at * sizeof(TypeParam), kCount - at,
                                           static_cast<uint64_t>(rows[at - 1]), this->flags_))
        << "also if the previous row was appended with others";
    EXPECT_EQ(narrow->size(), at);
  }
}

TYPED_TEST(NarrowRowsTest, WidensToEightBytesPerRow) {
  std::mt19937_64 random(2);
  constexpr uint64_t kNumRows = 1'000'000;
  const auto rows = this->Sorted(4000, kNumRows, true, random);
  const auto narrow = NarrowRows::Make(kNumRows, rows.size() + 1);
  ASSERT_TRUE(this->Append(*narrow, rows, 1000, random));
  const uint64_t narrow_bytes = narrow->bytes();
  ASSERT_TRUE(narrow->Widen());
  EXPECT_EQ(std::vector<uint64_t>(narrow->wide(), narrow->wide() + rows.size()),
            std::vector<uint64_t>(rows.begin(), rows.end()));
  EXPECT_EQ(narrow->RowOf(17), static_cast<uint64_t>(rows[17]));
  EXPECT_EQ(narrow->bytes(), 8 * (rows.size() + 1));
  EXPECT_LT(narrow_bytes, narrow->bytes());
}

}  // namespace
}  // namespace sparseagg

#include "sparse/rows/row_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RowIdsTest, ReadsStoredRows) {
  const RowIds rows = {2, 5, 9};
  EXPECT_THAT(rows, ElementsAre(2, 5, 9));
  EXPECT_THAT(rows.kept(), ElementsAre(2, 5, 9));
  EXPECT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows.front(), 2u);
  EXPECT_EQ(rows.back(), 9u);
  EXPECT_EQ(rows.MemoryBytes(), 24u);
}

TEST(RowIdsTest, EveryRowNeedsNoArray) {
  const RowIds rows = RowIds::Every(4);
  EXPECT_THAT(rows, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(rows.kept(), IsEmpty());
  EXPECT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows.back(), 3u);
  EXPECT_EQ(rows.MemoryBytes(), 0u);
}

TEST(RowIdsTest, NoRowsAreTheSameEitherWay) {
  EXPECT_TRUE(RowIds().empty());
  EXPECT_TRUE(RowIds::Every(0).empty());
  EXPECT_EQ(RowIds(), RowIds::Every(0));
  HostVector<uint64_t> made;
  EXPECT_THAT(RowIds().Array(made), IsEmpty());
}

TEST(RowIdsTest, AreEqualIfTheirRowsAre) {
  EXPECT_EQ(RowIds::Every(3), RowIds({0, 1, 2}));
  EXPECT_NE(RowIds::Every(3), RowIds({0, 1}));
  EXPECT_NE(RowIds::Every(3), RowIds({0, 1, 3}));
}

TEST(RowIdsTest, FindsWhereARowIsOrWouldBe) {
  for (const RowIds& rows : {RowIds::Every(5), RowIds({0, 1, 2, 3, 4})}) {
    for (uint64_t row = 0; row < 5; ++row) EXPECT_EQ(rows.LowerBound(row), row);
    EXPECT_EQ(rows.LowerBound(~uint64_t{0}), 5u);
  }
  const RowIds some = {2, 5};
  EXPECT_EQ(some.LowerBound(0), 0u);
  EXPECT_EQ(some.LowerBound(3), 1u);
  EXPECT_EQ(some.LowerBound(5), 1u);
  EXPECT_EQ(some.LowerBound(6), 2u);
}

TEST(RowIdsTest, PiecesAndArraysAreViewsOrGenerated) {
  std::array<uint64_t, 2> buffer;
  HostVector<uint64_t> made;
  const RowIds every = RowIds::Every(4);
  EXPECT_THAT(every.Piece(1, 2, buffer.data()), ElementsAre(1, 2));
  EXPECT_THAT(every.Array(made), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(every.Array(made).data(), made.data());
  const RowIds kept = {3, 6, 8};
  EXPECT_THAT(kept.Piece(1, 2, nullptr), ElementsAre(6, 8));
  EXPECT_EQ(kept.Array(made).data(), kept.kept().data());
}

TEST(RowIdsTest, IteratorsGoAnywhere) {
  for (const RowIds& rows : {RowIds::Every(9), RowIds({0, 1, 2, 3, 4, 5, 6, 7, 8})}) {
    EXPECT_EQ(*std::lower_bound(rows.begin(), rows.end(), 6), 6u);
    EXPECT_EQ(std::count(rows.begin(), rows.end(), 8), 1);
    auto at = rows.end();
    EXPECT_EQ(*--at, 8u);
    EXPECT_EQ(*(at + -3), 5u);
    EXPECT_EQ(at - rows.begin(), 8);
    EXPECT_LT(rows.begin(), at);
    at = rows.begin();
    EXPECT_EQ(*at++, 0u);
    EXPECT_EQ(*at, 1u);
  }
}

}  // namespace
}  // namespace sparseagg

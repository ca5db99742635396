#include "client/tensor.h"

#include "tests/client/support.h"

namespace sparseagg::client {
namespace {

using sparseagg::testing::HasError;

TEST(FlattenIndexTest, IsRowMajorAndTurnsBack) {
  const int64_t shape[] = {3, 4, 5};
  const int64_t index[] = {2, 0, 4};
  const uint64_t row = FlattenIndex(index, shape).value();
  EXPECT_EQ(row, 44u);
  int64_t back[3];
  UnflattenIndex(row, shape, back);
  EXPECT_THAT(back, ::testing::ElementsAre(2, 0, 4));
}

TEST(FlattenIndexTest, NamesTheDimensionThatIsExceeded) {
  const int64_t shape[] = {3, 4};
  const int64_t beyond[] = {2, 4};
  const int64_t negative[] = {-1, 0};
  EXPECT_TRUE(HasError(FlattenIndex(beyond, shape).status(), "INDEX_OUT_OF_RANGE",
                       "index 4 of dimension 1 is not in [0, 4)"));
  EXPECT_TRUE(
      HasError(FlattenIndex(negative, shape).status(), "INDEX_OUT_OF_RANGE", "dimension 0"));
}

TEST(MakeEmptyTensorTest, RefusesABadShape) {
  EXPECT_FALSE(MakeEmptyTensor({"t", ValueType::kF32, {0}, 1}).ok());
  EXPECT_EQ(MakeEmptyTensor({"t", ValueType::kF32, {8, 2}, 1})->layout.row_width, 2u);
}

}  // namespace
}  // namespace sparseagg::client

#include "client/wire/encoded_update.h"

#include "client/client.h"
#include "tests/client/support.h"

namespace sparseagg::client {
namespace {

using sparseagg::testing::HasError;
using sparseagg::testing::MakeTensor;

Update OneTensor(const Tensor& tensor) {
  Update update;
  update.contributor = "c";
  update.tensors = {tensor.view()};
  return update;
}

TEST(EncodeTest, ByteStringIsIndicesThenValuesOfEachTensor) {
  const Tensor a = MakeTensor<int64_t>({"a", ValueType::kI64, {4}, 1}, {3}, {7});
  const Tensor b = MakeTensor<uint32_t>({"b", ValueType::kU32, {2}, 0}, {0}, {8, 9});
  Update update = OneTensor(a);
  update.tensors.push_back(b.view());
  const EncodedUpdate encoded = Encode("rounds/r", update).value();
  const std::string expected("\3\0\0\0\7\0\0\0\0\0\0\0\10\0\0\0\11\0\0\0", 20);
  EXPECT_EQ(encoded.total_bytes(), expected.size());
  for (uint64_t offset = 0; offset <= expected.size(); ++offset) {
    for (const uint64_t n : {1, 5, 100}) {
      EXPECT_EQ(encoded.Bytes(offset, n), expected.substr(offset, n)) << offset << " " << n;
    }
  }
}

TEST(EncodeTest, TakesWideIndicesWhereADimensionNeedsThem) {
  const Tensor narrow = MakeTensor<float>({"a", ValueType::kF32, {INT32_MAX}, 1}, {1}, {1});
  const Tensor wide = MakeTensor<float>({"a", ValueType::kF32, {int64_t{1} << 40}, 1}, {1}, {1});
  Update update = OneTensor(narrow);
  update.encoding = "coo.raw";
  EXPECT_EQ(Encode("", update)->headers[0].indices_bytes, 4u);
  update.tensors = {wide.view()};
  EXPECT_EQ(Encode("", update)->headers[0].indices_bytes, 8u);
}

TEST(EncodeTest, RefusesEntriesOfAnotherLayout) {
  Tensor tensor = MakeTensor<float>({"a", ValueType::kF32, {4, 2}, 1}, {1}, {1, 2});
  tensor.dense_shape = {4, 3};
  EXPECT_TRUE(HasError(Encode("", OneTensor(tensor)).status(), "SHAPE_MISMATCH", "tensor \"a\""));
}

TEST(ContentUpdateIdTest, DependsOnContentAndWeightOnly) {
  const Tensor tensor = MakeTensor<float>({"a", ValueType::kF32, {4}, 1}, {1}, {1});
  const Tensor other = MakeTensor<float>({"a", ValueType::kF32, {4}, 1}, {1}, {2});
  Update update = OneTensor(tensor);
  const std::string id = ContentUpdateId(update).value();
  EXPECT_EQ(id.size(), 32u);
  update.contributor = "someone else";
  update.update_id = "given";
  EXPECT_EQ(ContentUpdateId(update).value(), id);
  update.weight = 2;
  EXPECT_NE(ContentUpdateId(update).value(), id);
  EXPECT_NE(ContentUpdateId(OneTensor(other)).value(), id);
}

}  // namespace
}  // namespace sparseagg::client

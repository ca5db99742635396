#include "sparse/types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"

namespace sparseagg {
namespace {

using ::testing::HasSubstr;

TensorSpec Spec(std::vector<int64_t> shape, uint32_t sparse_dim) {
  TensorSpec spec;
  spec.name = "emb";
  spec.dense_shape = std::move(shape);
  spec.sparse_dim = sparse_dim;
  return spec;
}

void ExpectRefused(const TensorSpec& spec, const std::string& reason, const std::string& part) {
  const auto layout = MakeLayout(spec);
  ASSERT_FALSE(layout.ok());
  EXPECT_EQ(layout.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReason(layout.status()), reason);
  EXPECT_THAT(std::string(layout.status().message()), HasSubstr(part));
}

TEST(MakeLayout, LeadingDimensionsAreRowsTheRestIsTheWidth) {
  const TensorLayout layout = MakeLayout(Spec({10, 20, 3, 4}, 2)).value();
  EXPECT_EQ(layout.num_rows, 200u);
  EXPECT_EQ(layout.row_width, 12u);
  EXPECT_EQ(layout.row_bytes(), 48u);
}

TEST(MakeLayout, ScalarCooHasWidthOneAndDenseTensorsHaveOneRow) {
  EXPECT_EQ(MakeLayout(Spec({7}, 1))->row_width, 1u);
  EXPECT_EQ(MakeLayout(Spec({7, 3}, 0))->num_rows, 1u);
  EXPECT_EQ(MakeLayout(Spec({7, 3}, 0))->row_width, 21u);
  EXPECT_EQ(MakeLayout(Spec({}, 0))->row_width, 1u) << "a scalar";
}

TEST(MakeLayout, TheIndexSpaceEndsBelowTwoToThe63) {
  EXPECT_TRUE(MakeLayout(Spec({INT64_MAX}, 1)).ok());
  EXPECT_TRUE(MakeLayout(Spec({int64_t{1} << 31, int64_t{1} << 31}, 2)).ok());
  ExpectRefused(Spec({int64_t{1} << 32, int64_t{1} << 31}, 2), "INDEX_SPACE_TOO_LARGE",
                "9223372036854775808");
  ExpectRefused(Spec({INT64_MAX, INT64_MAX, INT64_MAX}, 3), "INDEX_SPACE_TOO_LARGE",
                "tensor \"emb\"");
}

TEST(MakeLayout, RowsHaveALimitedWidth) {
  EXPECT_TRUE(MakeLayout(Spec({5, 1 << 20}, 1)).ok());
  ExpectRefused(Spec({5, (1 << 20) + 1}, 1), "INDEX_SPACE_TOO_LARGE", "1048577");
  EXPECT_TRUE(MakeLayout(Spec({int64_t{1} << 31}, 0)).ok());
  ExpectRefused(Spec({(int64_t{1} << 31) + 1}, 0), "INDEX_SPACE_TOO_LARGE", "2147483649");
}

TEST(MakeLayout, RefusesWhatIsNotAShape) {
  ExpectRefused(Spec({5, 0}, 1), "INVALID_SPEC", "dimension 1 is 0");
  ExpectRefused(Spec({-5}, 1), "INVALID_SPEC", "dimension 0 is -5");
  ExpectRefused(Spec({5}, 2), "INVALID_SPEC", "sparse_dim 2 is above the rank 1");
  ExpectRefused(Spec(std::vector<int64_t>(17, 1), 1), "INVALID_SPEC", "rank 17 is above 16");
}

TEST(MakeLayout, RefusesBadNames) {
  TensorSpec spec = Spec({5}, 1);
  spec.name = "";
  ExpectRefused(spec, "INVALID_SPEC", "0 bytes");
  spec.name = std::string(256, 'x');
  ExpectRefused(spec, "INVALID_SPEC", "256 bytes");
  spec.name = "a\nb";
  ExpectRefused(spec, "INVALID_SPEC", "control character");
}

TEST(MakeReduceSpec, NamesTheOperatorsWhenOneIsUnknown) {
  TensorSpec spec = Spec({5}, 1);
  spec.op = "median";
  const auto reduce = MakeReduceSpec(spec);
  EXPECT_EQ(ErrorReason(reduce.status()), "UNKNOWN_OPERATOR");
  EXPECT_THAT(std::string(reduce.status().message()), HasSubstr("mean_of_contributors"));
}

TEST(MakeReduceSpec, MeansOfModularIntegersAreRefused) {
  TensorSpec spec = Spec({5}, 1);
  spec.value_type = ValueType::kU32;
  spec.integer_overflow = IntegerOverflow::kModular;
  spec.op = "weighted_mean";
  EXPECT_EQ(ErrorReason(MakeReduceSpec(spec).status()), "INVALID_SPEC");
  spec.op = "sum";
  EXPECT_TRUE(MakeReduceSpec(spec).ok());
}

TEST(ResultLayout, CountsAreOneU64ForEachRow) {
  TensorSpec spec = Spec({5, 8}, 1);
  spec.op = "count";
  const TensorLayout layout = ResultLayout(MakeReduceSpec(spec).value());
  EXPECT_EQ(layout.value_type, ValueType::kU64);
  EXPECT_EQ(layout.row_width, 1u);
  EXPECT_EQ(layout.num_rows, 5u);
}

TEST(ValueTypes, NamesCanBeParsed) {
  for (ValueType type : kAllValueTypes) EXPECT_EQ(ParseValueType(ValueTypeName(type)), type);
  EXPECT_EQ(ParseValueType("f8"), std::nullopt);
}

}  // namespace
}  // namespace sparseagg

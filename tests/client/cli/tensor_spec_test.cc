#include "client/cli/tensor_spec.h"

#include "tests/client/support.h"

namespace sparseagg::cli {
namespace {

using sparseagg::testing::HasError;

TEST(ParseTensorSpecTest, ReadsEveryPart) {
  const TensorSpec spec =
      ParseTensorSpec(
          "emb:bf16:[1000, 64]:sparse_dim=1:op=weighted_mean:overflow=modular:plan=sweep")
          .value();
  EXPECT_EQ(spec.name, "emb");
  EXPECT_EQ(spec.value_type, ValueType::kBF16);
  EXPECT_EQ(spec.dense_shape, (std::vector<int64_t>{1000, 64}));
  EXPECT_EQ(spec.sparse_dim, 1u);
  EXPECT_EQ(spec.op, "weighted_mean");
  EXPECT_EQ(spec.integer_overflow, IntegerOverflow::kModular);
  EXPECT_EQ(spec.plan, "sweep");
}

TEST(ParseTensorSpecTest, IndexesAllDimensionsByDefault) {
  EXPECT_EQ(ParseTensorSpec("a:f32:10x20x30")->sparse_dim, 3u);
  EXPECT_EQ(ParseTensorSpec("a:f32:10")->op, "sum");
}

TEST(ParseTensorSpecTest, ReadsBackWhatFormatWrites) {
  for (const char* text : {"a:i64:5:sparse_dim=0:op=max", "b c:u32:2x3:sparse_dim=1:op=sum:plan=x",
                           "n:i32:7:sparse_dim=1:op=sum:overflow=modular"}) {
    EXPECT_EQ(FormatTensorSpec(ParseTensorSpec(text).value()), text);
  }
}

TEST(FormatShapeTest, OfOneNumberIsSeen) {
  EXPECT_EQ(FormatShape({}), "[]");
  EXPECT_EQ(FormatShape({2, 3}), "2x3");
}

TEST(ParseWeightTest, RoundsToF32ForFloats) {
  const std::vector<TensorSpec> floats = {ParseTensorSpec("w:bf16:3").value()};
  EXPECT_EQ(ParseWeight("0.1", floats).value(), 0.1F);
  EXPECT_EQ(ParseWeight(" +1e2 ", floats).value(), 100.0F);
  EXPECT_EQ(ParseWeight("16777217", floats).value(), 16777216.0F);
  EXPECT_EQ(ParseWeight("0", floats).value(), 0.0F);
}

TEST(ParseWeightTest, RoundsOnce) {
  // Just above the middle of two numbers of f32, which is where a double has it.
  EXPECT_EQ(ParseWeight("1.0000000596046447753906250000000001", {}).value(), 1 + 0x1p-23F);
  EXPECT_EQ(ParseWeight("16777217.00000000000001", {}).value(), 16777218.0F);
}

TEST(ParseWeightTest, RefusesOtherNumbersForIntegers) {
  const std::vector<TensorSpec> mixed = {ParseTensorSpec("w:f32:3").value(),
                                         ParseTensorSpec("n:i64:3").value()};
  EXPECT_EQ(ParseWeight("16777216", mixed).value(), 16777216.0F);
  EXPECT_TRUE(HasError(ParseWeight("16777217", mixed).status(), "BAD_ARGUMENT",
                       "the weight 16777217 is not a number of f32"));
  EXPECT_TRUE(HasError(ParseWeight("3.00000000000000000000001", mixed).status(), "BAD_ARGUMENT",
                       "is not a number of f32"));
}

TEST(ParseWeightTest, IsAnyNumberWhereTheOperatorUsesNone) {
  for (const char* op : {"count", "min", "max"}) {
    const std::vector<TensorSpec> spec = {ParseTensorSpec(std::string("n:i64:3:op=") + op).value()};
    EXPECT_EQ(ParseWeight("0.1", spec).value(), 0.1F) << op;
  }
  for (const char* op : {"sum", "weighted_mean", "mean_of_contributors"}) {
    const std::vector<TensorSpec> spec = {ParseTensorSpec(std::string("n:i64:3:op=") + op).value()};
    EXPECT_FALSE(ParseWeight("0.1", spec).ok()) << op;
  }
}

TEST(ParseWeightTest, RefusesWhatF32MakesZeroOrInfinite) {
  EXPECT_TRUE(
      HasError(ParseWeight("1e-60", {}).status(), "BAD_ARGUMENT", "the weight 1e-60 is 0 as f32"));
  EXPECT_TRUE(HasError(ParseWeight("1e300", {}).status(), "BAD_ARGUMENT",
                       "the weight 1e300 is infinite as f32"));
}

TEST(ParseWeightTest, RefusesWhatIsNotANumber) {
  for (const char* text : {"", "x", "1,5", "1 2", "0x10"}) {
    EXPECT_TRUE(HasError(ParseWeight(text, {}).status(), "BAD_ARGUMENT", "is not a number"))
        << text;
    EXPECT_NE(IsWeight(text), "") << text;
  }
  EXPECT_EQ(IsWeight("-2.5"), "") << "the server says what is wrong with it";
}

TEST(NotNegativeTest, SaysWhatIs) {
  EXPECT_EQ(NotNegative("17"), "");
  EXPECT_EQ(NotNegative("-1"), "-1 is negative");
}

TEST(ParseTensorSpecTest, SaysWhichPartIsWrong) {
  struct Case {
    const char* text;
    const char* message;
  };
  constexpr Case kCases[] = {
      {"", "expected NAME:TYPE:SHAPE"},
      {"a:f32", "expected NAME:TYPE:SHAPE"},
      {":f32:3", "expected NAME:TYPE:SHAPE"},
      {"a:float:3", "type \"float\" is not one of f16 bf16 f32 f64 i32 i64 u32 u64"},
      {"a:f32:", "shape \"\""},
      {"a:f32:3x", "shape \"3x\""},
      {"a:f32:0", "shape \"0\""},
      {"a:f32:-1", "shape \"-1\""},
      {"a:f32:[3", "shape \"[3\""},
      {"a:f32:99999999999999999999", "shape"},
      {"a:f32:3:sparse_dim=2", "sparse_dim \"2\" is not in [0, 1]"},
      {"a:f32:3:sparse_dim=-1", "sparse_dim"},
      {"a:f32:3:op", "\"op\" is not name=value"},
      {"a:f32:3:operator=sum", "\"operator\" is unknown"},
      {"a:f32:3:overflow=wrap", "neither checked nor modular"},
  };
  for (const Case& c : kCases) {
    EXPECT_TRUE(HasError(ParseTensorSpec(c.text).status(), "BAD_ARGUMENT", c.message)) << c.text;
  }
}

}  // namespace
}  // namespace sparseagg::cli

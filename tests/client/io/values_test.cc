#include "client/io/values.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/client/support.h"

namespace sparseagg::client {
namespace {

using sparseagg::testing::HasError;
using sparseagg::testing::MakeTensor;
using sparseagg::testing::ValuesOf;

TensorSpec Vector(ValueType type, int64_t length) { return {"v", type, {length}, 1}; }

template <class T>
T Parse(ValueType type, std::string_view text) {
  T value{};
  EXPECT_TRUE(ParseValue(text, type, reinterpret_cast<std::byte*>(&value))) << text;
  return value;
}

bool Parses(ValueType type, std::string_view text) {
  std::byte value[8];
  return ParseValue(text, type, value);
}

TEST(ConvertValuesTest, RoundsToNearestWithTiesToEven) {
  Tensor tensor =
      MakeTensor<double>(Vector(ValueType::kF64, 3), {0, 1, 2}, {1 + 0x1p-24, 1 + 0x3p-24, -0.1});
  ASSERT_TRUE(ConvertValues(ValueType::kF32, tensor).ok());
  EXPECT_EQ(ValuesOf<float>(tensor), (std::vector<float>{1, 1 + 0x1p-22f, -0.1f}));
}

TEST(ConvertValuesTest, KeepsHalfPrecisionBits) {
  Tensor tensor = MakeTensor<float>(Vector(ValueType::kF32, 4), {0, 1, 2, 3},
                                    {1.0f, -2.5f, 0x1p-24f, 65504.0f});
  ASSERT_TRUE(ConvertValues(ValueType::kF16, tensor).ok());
  EXPECT_EQ(ValuesOf<uint16_t>(tensor), (std::vector<uint16_t>{0x3C00, 0xC100, 0x0001, 0x7BFF}));
  ASSERT_TRUE(ConvertValues(ValueType::kF64, tensor).ok());
  EXPECT_EQ(ValuesOf<double>(tensor), (std::vector<double>{1, -2.5, 0x1p-24, 65504}));
}

TEST(ConvertValuesTest, KeepsTheSignOfWhatBecomesZero) {
  Tensor tensor = MakeTensor<double>(Vector(ValueType::kF64, 2), {0, 1}, {-1e-300, -0.0});
  ASSERT_TRUE(ConvertValues(ValueType::kF16, tensor).ok());
  EXPECT_EQ(ValuesOf<uint16_t>(tensor), (std::vector<uint16_t>{0x8000, 0x8000}));
}

TEST(ConvertValuesTest, RefusesWhatAnIntegerCannotHold) {
  Tensor fraction = MakeTensor<float>(Vector(ValueType::kF32, 2), {0, 1}, {1, 0.5f});
  EXPECT_TRUE(HasError(ConvertValues(ValueType::kI32, fraction), "VALUE_NOT_REPRESENTABLE",
                       "value 0.5 at entry 1"));
  EXPECT_EQ(fraction.layout.value_type, ValueType::kF32) << "an error changes nothing";
  Tensor negative = MakeTensor<int64_t>(Vector(ValueType::kI64, 1), {0}, {-1});
  EXPECT_TRUE(HasError(ConvertValues(ValueType::kU64, negative), "VALUE_NOT_REPRESENTABLE", "-1"));
}

TEST(ConvertValuesTest, RefusesAFiniteValueThatWouldBecomeInfinite) {
  Tensor tensor = MakeTensor<double>(Vector(ValueType::kF64, 1), {0}, {1e39});
  EXPECT_TRUE(HasError(ConvertValues(ValueType::kF32, tensor), "VALUE_NOT_REPRESENTABLE", "f32"));
}

TEST(ParseValueTest, RoundsDecimalTextOnce) {
  EXPECT_EQ(Parse<float>(ValueType::kF32, "0.1"), 0.1f);
  EXPECT_EQ(Parse<double>(ValueType::kF64, "1e-400"), 0.0);
  EXPECT_EQ(Parse<float>(ValueType::kF32, "1e-45"), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(Parse<int64_t>(ValueType::kI64, "-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(Parse<uint64_t>(ValueType::kU64, "18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(Parse<double>(ValueType::kF64, "+2.5"), 2.5);
  EXPECT_EQ(Parse<uint16_t>(ValueType::kBF16, "1.00390625000000000000001"), 0x3F81);
  EXPECT_EQ(Parse<uint16_t>(ValueType::kBF16, "-1.00390625"), 0xBF80);
  EXPECT_EQ(Parse<uint16_t>(ValueType::kF16, "65519.99999999999999999"), 0x7BFF);
  EXPECT_EQ(Parse<uint16_t>(ValueType::kF16, "2.98023223876953125000001e-8"), 0x0001);
  EXPECT_EQ(Parse<uint16_t>(ValueType::kF16, "-1e-400"), 0x8000);
}

TEST(ParseValueTest, TakesWholeNumbersHoweverTheyAreWritten) {
  EXPECT_EQ(Parse<int64_t>(ValueType::kI64, "1e+16"), 10'000'000'000'000'000);
  EXPECT_EQ(Parse<int32_t>(ValueType::kI32, "-3.0"), -3);
  EXPECT_EQ(Parse<uint32_t>(ValueType::kU32, "-0.0"), 0u);
  EXPECT_EQ(Parse<uint64_t>(ValueType::kU64, "1.8446744073709551615e19"), UINT64_MAX);
  EXPECT_FALSE(Parses(ValueType::kU64, "1.8446744073709551616e19"));
  EXPECT_FALSE(Parses(ValueType::kI64, "9.2233720368547758075e18"));
}

TEST(ParseValueTest, RefusesWhatIsNotAFiniteNumberOfTheType) {
  for (const char* text : {"", "x", "1x", "1e39", "nan", "inf", "+-1", "--1", "1 "}) {
    EXPECT_FALSE(Parses(ValueType::kF32, text)) << text;
  }
  EXPECT_FALSE(Parses(ValueType::kI32, "2147483648"));
  EXPECT_FALSE(Parses(ValueType::kU32, "-1"));
  EXPECT_FALSE(Parses(ValueType::kI32, "1.5"));
  EXPECT_FALSE(Parses(ValueType::kF16, "65520"));
  EXPECT_TRUE(Parses(ValueType::kF16, "65519.999"));
}

TEST(AppendValueTest, GivesTextThatReadsBackToTheSameBits) {
  for (const float value : {0.1f, -1e-45f, 3.4028235e38f, 16777217.0f, 1.0f / 3}) {
    std::string text;
    AppendValue(ValueType::kF32, reinterpret_cast<const std::byte*>(&value), text);
    EXPECT_EQ(Parse<float>(ValueType::kF32, text), value) << text;
  }
}

}  // namespace
}  // namespace sparseagg::client

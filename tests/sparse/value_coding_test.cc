#include "sparse/encodings/value_coding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/status.h"
#include "sparse/encodings/narrow_float.h"
#include "sparse/values.h"
#include "tests/sparse/encoded.h"

namespace sparseagg {
namespace {

using testing::Decode;
using testing::Decoded;
using ::testing::ElementsAre;
using testing::Encoded;
using ::testing::HasSubstr;
using testing::SpecOf;
using testing::TryEncode;

template <class V>
absl::StatusOr<Encoded> Code(const std::vector<V>& values, const std::string& coding,
                             uint64_t seed = 0) {
  const auto size = static_cast<int64_t>(values.size());
  const ValueType type = sizeof(V) == 8 ? ValueType::kF64 : ValueType::kF32;
  return TryEncode(SpecOf({size}, 0, type), {0}, values,
                   {.encoding = "coo.packed", .values = coding, .rounding_seed = seed});
}

template <class V>
std::vector<V> RoundTrip(const std::vector<V>& values, const std::string& coding,
                         uint64_t seed = 0) {
  const Encoded encoded = Code(values, coding, seed).value();
  const Decoded decoded =
      Decode(encoded, SpecOf(encoded.header.dense_shape, 0, encoded.header.value_type), 13);
  EXPECT_TRUE(decoded.status.ok()) << decoded.status;
  return decoded.ValuesAs<V>();
}

TEST(NarrowFloatTest, WidensEvery16BitPatternAsTheNumericsContractDoes) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const F16 half{static_cast<uint16_t>(bits)};
    const BF16 brain{static_cast<uint16_t>(bits)};
    const auto same = [](double a, double b) {
      return std::isnan(a) ? std::isnan(b)
                           : std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
    };
    ASSERT_TRUE(same(Widen(half), FloatOfF16(half.bits))) << bits;
    ASSERT_TRUE(same(Widen(brain), FloatOfBF16(brain.bits))) << bits;
  }
}

TEST(NarrowFloatTest, RoundsToNearestEvenAsTheNumericsContractDoes) {
  std::mt19937 random(1);
  const auto check = [](float value) {
    // RoundDouble() gives no negative zero, so the sign is restored.
    const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
    const double magnitude = std::abs(value);
    const auto half = ValueTraits<F16>::Narrow(RoundDouble(magnitude, kFormatF16)).bits;
    const auto brain = ValueTraits<BF16>::Narrow(RoundDouble(magnitude, kFormatBF16)).bits;
    ASSERT_EQ(F16OfFloat(value), half | sign) << value;
    ASSERT_EQ(BF16OfFloat(value), brain | sign) << value;
  };
  for (int i = 0; i < 300'000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isfinite(value)) check(value);
  }
  for (uint32_t bits = 0; bits < 0x7C00; ++bits) {  // ties, and their neighbours
    const double tie = (Widen(F16{static_cast<uint16_t>(bits)}) +
                        Widen(F16{static_cast<uint16_t>(bits + 1 == 0x7C00 ? bits : bits + 1)})) /
                       2;
    const auto single = static_cast<float>(tie);
    check(single);
    check(std::nextafterf(single, INFINITY));
    check(-std::nextafterf(single, 0.0f));
  }
}

TEST(ValueCodingTest, ExactCodingsKeepEveryBit) {
  const std::vector<float> coarse = {0.0f, -0.0f, 1.0f, -2.5f, 0x1p-126f, 0x1.FEp127f};
  EXPECT_EQ(std::memcmp(RoundTrip(coarse, "bf16").data(), coarse.data(), 4 * coarse.size()), 0);
  const std::vector<double> singles = {0.1f, -3e38f, 1e-45f};
  EXPECT_EQ(RoundTrip(singles, "f32"), singles);
  EXPECT_EQ(RoundTrip(std::vector<double>{65504, 0x1p-24}, "f16"),
            (std::vector<double>{65504, 0x1p-24}));
}

TEST(ValueCodingTest, ScaledValuesAreOffByHalfAStepAtMost) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (const size_t count : {1, 127, 128, 129, 1000}) {
    std::vector<float> values(count);
    for (float& value : values) value = normal(random);
    for (const auto& [coding, limit] : {std::pair{"int8", 127.0f}, std::pair{"int4", 7.0f}}) {
      const std::vector<float> decoded = RoundTrip(values, coding);
      const std::vector<float> up = RoundTrip(values, std::string(coding) + ".stochastic", 3);
      for (size_t i = 0; i < count; ++i) {
        const size_t block = i / kScaleValues * kScaleValues;
        float largest = 0;
        for (size_t j = block; j < std::min(count, block + kScaleValues); ++j)
          largest = std::max(largest, std::abs(values[j]));
        const float step = largest / limit;
        EXPECT_LE(std::abs(decoded[i] - values[i]), step * 0.5001f) << i;
        EXPECT_LE(std::abs(up[i] - values[i]), step * 1.0001f) << i;
      }
    }
  }
}

TEST(ValueCodingTest, StochasticRoundingIsRightOnAverageAndFollowsItsSeed) {
  std::vector<float> values(100'000, 0.3f);
  values[0] = 7.0f;  // the step is 1 in the first block; 0.3 / 7 in the others
  for (size_t i = 0; i < values.size(); i += kScaleValues) values[i] = 7.0f;
  const std::vector<float> decoded = RoundTrip(values, "int4.stochastic", 5);
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += i % kScaleValues == 0 ? 0 : decoded[i];
  const size_t counted = values.size() - (values.size() + 127) / 128;
  const double mean = sum / static_cast<double>(counted);
  EXPECT_NEAR(mean, 0.3, 0.01);  // the deviation of the mean is 0.0015
  EXPECT_EQ(RoundTrip(values, "int4.stochastic", 5), decoded);
  EXPECT_NE(RoundTrip(values, "int4.stochastic", 6), decoded);
}

TEST(ValueCodingTest, ZerosHaveTheScaleZero) {
  EXPECT_THAT(RoundTrip(std::vector<float>{0, 0, 0}, "int8"), ElementsAre(0, 0, 0));
  EXPECT_THAT(RoundTrip(std::vector<float>{1e-45f, 0}, "int8"), ElementsAre(0, 0));
}

TEST(ValueCodingTest, TheLargestNumberIsCodedWithoutGoingBeyondIt) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (const char* coding : {"int8", "int4", "int8.stochastic", "int4.stochastic"}) {
    const std::vector<float> decoded = RoundTrip(std::vector<float>{kLargest, -kLargest}, coding);
    ASSERT_EQ(decoded.size(), 2u);
    EXPECT_LE(decoded[0], kLargest) << coding;  // not infinite
    EXPECT_GE(decoded[0], kLargest * (1 - 0x1p-20f)) << coding;
    EXPECT_GE(decoded[1], -kLargest) << coding;
  }
}

TEST(ValueCodingTest, NamesAValueThatTheCodingCannotHold) {
  const auto reason = [](const absl::StatusOr<Encoded>& encoded) {
    EXPECT_THAT(std::string(encoded.status().message()), HasSubstr("tensor \"emb\": value 1"));
    return ErrorReason(encoded.status());
  };
  EXPECT_EQ(reason(Code(std::vector<float>{1, 65520}, "f16")), "VALUE_NOT_CODABLE");
  EXPECT_EQ(reason(Code(std::vector<float>{1, 3.4e38f}, "bf16")), "VALUE_NOT_CODABLE");
  EXPECT_EQ(reason(Code(std::vector<double>{1, 1e39}, "f32")), "VALUE_NOT_CODABLE");
  EXPECT_EQ(reason(Code(std::vector<float>{1, NAN}, "int8")), "VALUE_NOT_CODABLE");
  EXPECT_EQ(reason(Code(std::vector<float>{1, INFINITY}, "int4")), "VALUE_NOT_CODABLE");
  EXPECT_EQ(reason(Code(std::vector<double>{1, -1e300}, "int8")), "VALUE_NOT_CODABLE");
}

TEST(ValueCodingTest, RefusesAScaleThatIsNoStep) {
  for (const float scale : {-1.0f, INFINITY, NAN}) {
    Encoded encoded = Code(std::vector<float>(200, 1.0f), "int8").value();
    std::memcpy(encoded.values.data() + 4, &scale, 4);
    const absl::Status status = Decode(encoded, SpecOf({200}, 0)).status;
    EXPECT_EQ(ErrorReason(status), "MALFORMED_BLOCK");
    EXPECT_THAT(std::string(status.message()), HasSubstr("value block 1"));
  }
}

TEST(ValueCodingTest, IntegersAndNarrowTypesTravelAsTheyAre) {
  for (const ValueType type : {ValueType::kI32, ValueType::kU64, ValueType::kF16}) {
    EncodedHeader header = testing::HeaderOf(SpecOf({4}, 0, type));
    header.values_encoding = "bf16";
    EXPECT_EQ(ErrorReason(FindValueCoding(header).status()), "UNKNOWN_VALUES_ENCODING");
  }
}

}  // namespace
}  // namespace sparseagg

#include "sparse/encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/status.h"
#include "sparse/encodings/value_coding.h"
#include "tests/sparse/encoded.h"

namespace sparseagg {
namespace {

using testing::AscendingRows;
using testing::Decode;
using testing::Decoded;
using ::testing::ElementsAre;
using testing::Encoded;
using testing::SpecOf;
using testing::TryEncode;

TEST(EncodeTensorTest, TakesTheSmallestThatChangesNothing) {
  const TensorSpec spec = SpecOf({1000}, 1);
  const std::vector<uint64_t> rows = AscendingRows(100, 9, 0, 1);
  Encoded encoded = TryEncode(spec, rows, std::vector<float>(100, 0.1f), {}).value();
  EXPECT_EQ(encoded.header.encoding, "coo.packed");
  EXPECT_EQ(encoded.header.values_encoding, "");
  encoded = TryEncode(spec, rows, std::vector<float>(100, -0.5f), {}).value();
  EXPECT_EQ(encoded.header.values_encoding, "bf16");
  encoded = TryEncode(spec, rows, std::vector<float>(100, 2049.0f / 2048), {}).value();
  EXPECT_EQ(encoded.header.values_encoding, "");
  encoded = TryEncode(spec, rows, std::vector<float>(100, 1025.0f / 1024), {}).value();
  EXPECT_EQ(encoded.header.values_encoding, "f16");
  const TensorSpec wide = SpecOf({1000}, 1, ValueType::kF64);
  encoded = TryEncode(wide, rows, std::vector<double>(100, 0.1f), {}).value();
  EXPECT_EQ(encoded.header.values_encoding, "f32");
}

TEST(EncodeTensorTest, TakesRawForAHandfulOfEntries) {
  const TensorSpec spec = SpecOf({1000}, 1);
  const Encoded encoded = TryEncode(spec, {7}, std::vector<float>{0.1f}, {}).value();
  EXPECT_EQ(encoded.header.encoding, "coo.raw");
  EXPECT_EQ(encoded.indices.size() + encoded.values.size(), 12u);
  EXPECT_EQ(TryEncode(spec, {}, std::vector<float>{}, {})->header.encoding, "coo.raw");
}

TEST(EncodeTensorTest, SortsEntriesAndKeepsRepeatedRowsInTheirOrder) {
  const TensorSpec spec = SpecOf({50, 2}, 1);
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  const Encoded encoded =
      TryEncode(spec, {9, 4, 9, 0}, values, {.encoding = "coo.packed", .values = "raw"}).value();
  const Decoded decoded = Decode(encoded, spec);
  ASSERT_TRUE(decoded.status.ok()) << decoded.status;
  EXPECT_THAT(decoded.rows, ElementsAre(0, 4, 9, 9));
  EXPECT_THAT(decoded.ValuesAs<float>(), ElementsAre(7, 8, 3, 4, 1, 2, 5, 6));
}

TEST(EncodeTensorTest, LossyValuesAreForWideFloatsOnly) {
  const EncodeOptions lossy = {.encoding = "coo.packed", .values = "int8"};
  const TensorSpec floats = SpecOf({9}, 1);
  EXPECT_EQ(TryEncode(floats, {3}, std::vector<float>{0.1f}, lossy)->header.values_encoding,
            "int8");
  const TensorSpec counts = SpecOf({9}, 1, ValueType::kI64);
  EXPECT_EQ(TryEncode(counts, {3}, std::vector<int64_t>{7}, lossy)->header.values_encoding, "");
}

TEST(EncodeTensorTest, RefusesNamesItDoesNotKnowAndRowsOutsideOfTheShape) {
  const TensorSpec spec = SpecOf({9}, 1);
  const auto reason = [&](uint64_t row, const EncodeOptions& options) {
    return ErrorReason(TryEncode(spec, {row}, std::vector<float>{1}, options).status());
  };
  EXPECT_EQ(reason(3, {.encoding = "coo.zip"}), "UNKNOWN_ENCODING");
  EXPECT_EQ(reason(3, {.values = "int7"}), "UNKNOWN_VALUES_ENCODING");
  EXPECT_EQ(reason(3, {.encoding = "coo.raw", .values = "bf16"}), "UNKNOWN_VALUES_ENCODING");
  EXPECT_EQ(reason(9, {}), "INDEX_OUT_OF_RANGE");
}

struct Case {
  std::string encoding;
  std::string values;
};

// Covers every encoding, value coding, value type, row width, and the sizes around every boundary.
TEST(EncodeTensorTest, DecodingUndoesEveryEncodingThatChangesNothing) {
  std::vector<Case> cases;
  for (const Encoding& encoding : AllEncodings())
    cases.push_back({std::string(encoding.name), "auto"});
  for (const std::string_view name : AllValuesEncodings()) {
    cases.push_back({"coo.packed", std::string(name)});
  }
  uint64_t seed = 0;
  for (const Case& c : cases) {
    for (const ValueType type : kAllValueTypes) {
      for (const int64_t width : {1, 3, 64}) {
        for (const uint64_t nnz : {0, 1, 2, 31, 32, 33, 127, 128, 129, 255, 256, 257, 511, 513}) {
          const TensorSpec spec = SpecOf({1 << 20, width}, 1, type);
          const ReduceSpec reduce = MakeReduceSpec(spec).value();
          std::mt19937_64 random(++seed);
          // Whole numbers, which every exact coding can hold.
          const std::vector<std::byte> values = testing::MakeValues(
              reduce, nnz * static_cast<uint64_t>(width), testing::Values::kSmall, random);
          const std::vector<uint64_t> rows = AscendingRows(nnz, 1 + seed % 700, 0.1, seed);
          const auto encoded = TryEncode(spec, rows, values, {c.encoding, c.values, seed});
          ASSERT_TRUE(encoded.ok()) << encoded.status();
          const Decoded decoded = Decode(*encoded, spec, 1 + seed % 3000);
          ASSERT_TRUE(decoded.status.ok()) << decoded.status;
          ASSERT_EQ(decoded.rows, rows);
          if (!encoded->header.values_encoding.starts_with("int")) {
            ASSERT_EQ(decoded.values, values) << c.values;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace sparseagg

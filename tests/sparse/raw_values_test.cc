#include "sparse/encodings/raw_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace sparseagg {
namespace {

constexpr uint64_t kValues = 1000;

// Returns the header of an update that is large enough for streaming stores; the tests send a part
// of it.
EncodedHeader LargeHeader() {
  EncodedHeader header;
  header.value_type = ValueType::kF32;
  header.values_bytes = uint64_t{64} << 20;
  return header;
}

std::vector<float> SomeValues(std::mt19937& random) {
  std::vector<float> values(kValues);
  for (float& value : values)
    value = std::ldexp(static_cast<float>(random()), random() % 200 - 140);
  values[1] = std::numeric_limits<float>::max();
  values[2] = std::numeric_limits<float>::denorm_min();
  values[3] = -0.0f;
  values[4] = std::numeric_limits<float>::lowest();
  return values;
}

std::string_view BytesOf(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

TEST(RawValues, AreCopiedInAnyPiecesToAnyAlignment) {
  std::mt19937 random(1);
  const EncodedHeader header = LargeHeader();
  for (uint64_t at = 0; at < 17; ++at) {
    const std::vector<float> sent = SomeValues(random);
    std::vector<float> out(kValues + 40, 7.0f);
    RawValues values(header, out.data() + at);
    std::string_view bytes = BytesOf(sent);
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, random() % 300);
      const std::string apart(piece);  // where nothing else is aligned
      ASSERT_TRUE(values.Append(apart).ok());
      bytes.remove_prefix(piece.size());
    }
    EXPECT_EQ(values.values(), kValues);
    EXPECT_EQ(BytesOf(std::vector<float>(out.begin() + at, out.begin() + at + kValues)),
              BytesOf(sent));
    for (uint64_t i = 0; i < at; ++i) EXPECT_EQ(out[i], 7.0f);
    for (uint64_t i = at + kValues; i < out.size(); ++i) EXPECT_EQ(out[i], 7.0f);
  }
}

TEST(RawValues, AreNotCalledFiniteFromTheFirstThatIsNot) {
  std::mt19937 random(2);
  const EncodedHeader header = LargeHeader();
  for (const float bad : {INFINITY, -INFINITY, NAN, -NAN}) {
    for (uint64_t position = 0; position < 200; ++position) {
      std::vector<float> sent = SomeValues(random);
      sent[position] = bad;
      std::vector<float> out(kValues);
      RawValues values(header, out.data());
      const std::string_view bytes = BytesOf(sent);
      for (size_t at = 0; at < bytes.size(); at += 333) {
        ASSERT_TRUE(values.Append(bytes.substr(at, 333)).ok());
        ASSERT_LE(values.finite_values(), position);
      }
      EXPECT_EQ(values.values(), kValues);
    }
  }
}

}  // namespace
}  // namespace sparseagg

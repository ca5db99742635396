// The tensors of tests/vectors have the same bytes in C++ and in Python.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "nlohmann/json.hpp"
#include "sparse/encode.h"
#include "tests/sparse/encoded.h"

namespace sparseagg {
namespace {

using nlohmann::json;
using testing::Decode;
using testing::Decoded;

std::string ReadFile(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(std::string(SPARSEAGG_SOURCE_DIR "/tests/vectors/") + name,
                        std::ios::binary)
              .rdbuf();
  return text.str();
}

class EncodingVectorsTest : public ::testing::Test {
 protected:
  std::string Part(const json& vector, const char* name) const {
    return blob_.substr(vector.at(name).at(0).get<size_t>(), vector.at(name).at(1).get<size_t>());
  }

  const std::string blob_ = ReadFile("encodings.bin");
  const json vectors_ = json::parse(ReadFile("encodings.json"));
};

TensorSpec SpecOf(const json& vector) {
  return testing::SpecOf(vector.at("dense_shape").get<std::vector<int64_t>>(),
                         vector.at("sparse_dim").get<uint32_t>(),
                         *ParseValueType(vector.at("value_type").get<std::string>()));
}

TEST_F(EncodingVectorsTest, AreEncodedToTheSameBytesAndDecoded) {
  ASSERT_GT(vectors_.size(), 20u);
  for (const json& vector : vectors_) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const TensorSpec spec = SpecOf(vector);
    const std::string row_bytes = Part(vector, "rows");
    const std::string values = Part(vector, "values");
    std::vector<uint64_t> rows(row_bytes.size() / sizeof(uint64_t));
    std::memcpy(rows.data(), row_bytes.data(), row_bytes.size());
    const std::string coding = vector.at("values_encoding").get<std::string>();
    const EncodeOptions options{.encoding = "coo.packed",
                                .values = coding.empty() ? "raw" : coding,
                                .rounding_seed = vector.at("rounding_seed").get<uint64_t>()};
    const auto encoded =
        testing::TryEncode(spec, rows, std::vector<char>(values.begin(), values.end()), options);
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    EXPECT_EQ(encoded->header.nnz, vector.at("nnz").get<uint64_t>());
    EXPECT_EQ(encoded->header.values_encoding, coding);
    EXPECT_EQ(encoded->indices, Part(vector, "encoded_indices"));
    EXPECT_EQ(encoded->values, Part(vector, "encoded_values"));

    const Decoded decoded = Decode(
        {encoded->header, Part(vector, "encoded_indices"), Part(vector, "encoded_values")}, spec);
    ASSERT_TRUE(decoded.status.ok()) << decoded.status;
    EXPECT_EQ(decoded.rows, rows);
    EXPECT_EQ(
        std::string(reinterpret_cast<const char*>(decoded.values.data()), decoded.values.size()),
        Part(vector, "decoded_values"));
  }
}

}  // namespace
}  // namespace sparseagg

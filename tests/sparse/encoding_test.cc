#include "sparse/encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/status.h"
#include "tests/sparse/encoded.h"
#include "tests/support/workload.h"

namespace sparseagg {
namespace {

using testing::Decoded;
using ::testing::HasSubstr;
using testing::SpecOf;

template <class T>
std::string Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

EncodedHeader HeaderFor(const TensorSpec& spec, uint64_t nnz, const std::string& indices,
                        const std::string& values, IndexType index_type = IndexType::kI64) {
  EncodedHeader header = testing::HeaderOf(spec);
  header.index_type = index_type;
  header.nnz = nnz;
  header.indices_bytes = indices.size();
  header.values_bytes = values.size();
  return header;
}

Decoded Decode(const EncodedHeader& header, const TensorSpec& spec, const std::string& indices,
               const std::string& values, size_t piece = 1 << 20) {
  return testing::Decode({header, indices, values}, spec, piece);
}

void ExpectError(const absl::Status& status, const std::string& reason, const std::string& part) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReason(status), reason) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor \"emb\""));
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST(CooRaw, FlattensSeveralIndexedDimensionsRowMajor) {
  const TensorSpec spec = SpecOf({3, 5, 2}, 2);
  const std::string indices = Bytes<int64_t>({2, 4, 0, 0, 1, 3});
  const std::string values = Bytes<float>({1, 2, 3, 4, 5, 6});
  const Decoded decoded = Decode(HeaderFor(spec, 3, indices, values), spec, indices, values);
  ASSERT_TRUE(decoded.status.ok()) << decoded.status;
  EXPECT_THAT(decoded.rows, ::testing::ElementsAre(14, 0, 8));
  EXPECT_THAT(decoded.ValuesAs<float>(), ::testing::ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(CooRaw, ReadsI32IndicesAndAnyCutOfTheBytes) {
  const TensorSpec spec = SpecOf({100}, 1);
  const std::string indices = Bytes<int32_t>({99, 0, 7});
  const std::string values = Bytes<float>({1, 2, 3});
  for (size_t piece : {1, 3, 5, 1000}) {
    const Decoded decoded =
        Decode(HeaderFor(spec, 3, indices, values, IndexType::kI32), spec, indices, values, piece);
    ASSERT_TRUE(decoded.status.ok()) << decoded.status;
    EXPECT_THAT(decoded.rows, ::testing::ElementsAre(99, 0, 7));
    EXPECT_THAT(decoded.ValuesAs<float>(), ::testing::ElementsAre(1, 2, 3));
  }
}

TEST(CooRaw, ADenseTensorHasOneEntryAndNoIndices) {
  const TensorSpec spec = SpecOf({2, 2}, 0);
  const std::string values = Bytes<float>({1, 2, 3, 4});
  const Decoded decoded = Decode(HeaderFor(spec, 1, "", values), spec, "", values);
  ASSERT_TRUE(decoded.status.ok()) << decoded.status;
  EXPECT_THAT(decoded.rows, ::testing::ElementsAre(0));
  EXPECT_THAT(decoded.ValuesAs<float>(), ::testing::ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(Decode(HeaderFor(spec, 0, "", ""), spec, "", "").status.ok()) << "nothing to add";
  const std::string twice = values + values;
  ExpectError(Decode(HeaderFor(spec, 2, "", twice), spec, "", twice).status, "SIZE_MISMATCH",
              "nnz is 2");
}

TEST(CooRaw, NamesTheEntryOfAnIndexOutOfRange) {
  const TensorSpec spec = SpecOf({800}, 1);
  const std::string values = Bytes<float>({1, 2});
  const std::string high = Bytes<int64_t>({3, 812});
  ExpectError(Decode(HeaderFor(spec, 2, high, values), spec, high, values).status,
              "INDEX_OUT_OF_RANGE", "index 812 at entry 1 is not below 800");
  const std::string negative = Bytes<int64_t>({-1, 3});
  ExpectError(Decode(HeaderFor(spec, 2, negative, values), spec, negative, values).status,
              "INDEX_OUT_OF_RANGE", "index -1 at entry 0 is negative");
  const TensorSpec two = SpecOf({3, 5}, 2);
  const std::string second = Bytes<int64_t>({0, 4, 1, 5});
  ExpectError(Decode(HeaderFor(two, 2, second, values), two, second, values).status,
              "INDEX_OUT_OF_RANGE", "index 5 of dimension 1 at entry 1 is not below 5");
}

TEST(CooRaw, RefusesSizesThatDoNotAgreeBeforeReadingAnything) {
  const TensorSpec spec = SpecOf({800}, 1);
  const std::string indices = Bytes<int64_t>({1, 2});
  const std::string values = Bytes<float>({1, 2});
  EncodedHeader header = HeaderFor(spec, 3, indices, values);
  ExpectError(InspectTensor(header, spec), "SIZE_MISMATCH",
              "nnz 3 needs 24 bytes of indices, the update has 16");
  header = HeaderFor(spec, 2, indices, values);
  header.values_bytes = 7;
  ExpectError(InspectTensor(header, spec), "SIZE_MISMATCH",
              "needs 8 bytes of values, the update has 7");
  header.nnz = ~uint64_t{0};  // times anything would overflow 64 bits
  ExpectError(InspectTensor(header, spec), "SIZE_MISMATCH", "over 2^64");
  header.nnz = uint64_t{1} << 61;  // 2^61 * 8 == 0 modulo 2^64
  header.indices_bytes = 0;
  ExpectError(InspectTensor(header, spec), "SIZE_MISMATCH", "over 2^64");
}

TEST(InspectTensor, ComparesWithTheSpec) {
  const TensorSpec spec = SpecOf({800}, 1);
  const std::string indices = Bytes<int64_t>({1});
  const std::string values = Bytes<float>({1});
  EncodedHeader header = HeaderFor(spec, 1, indices, values);
  header.value_type = ValueType::kF64;
  ExpectError(InspectTensor(header, spec), "TYPE_MISMATCH",
              "values are f64, the round expects f32");
  header = HeaderFor(spec, 1, indices, values);
  header.dense_shape = {801};
  ExpectError(InspectTensor(header, spec), "SHAPE_MISMATCH", "shape is [801] with sparse_dim 1");
  header.dense_shape.assign(1'000'000, 1);
  ExpectError(InspectTensor(header, spec), "SHAPE_MISMATCH",
              "shape is 1000000 dimensions with sparse_dim 1");
  header = HeaderFor(spec, 1, indices, values);
  header.encoding = "coo.zip";
  ExpectError(InspectTensor(header, spec), "UNKNOWN_ENCODING",
              "there is no encoding \"coo.zip\"; there are coo.raw, coo.packed");
}

// For every encoding and value type, decode(encode(x)) equals x.
TEST(Encodings, DecodeUndoesEncode) {
  for (const Encoding& encoding : AllEncodings()) {
    for (ValueType type : kAllValueTypes) {
      for (IndexType index_type : {IndexType::kI64, IndexType::kI32}) {
        const TensorSpec spec = SpecOf({7, 11, 3}, 2, type);
        const ReduceSpec reduce = MakeReduceSpec(spec).value();
        const auto updates = testing::MakeUpdates(
            reduce, {50, 1, testing::Distribution::kZipf, testing::Values::kHostile},
            static_cast<uint64_t>(type));
        testing::Update update = updates[0];
        std::sort(update.rows.begin(), update.rows.end());  // as coo.packed needs them
        EncodedHeader header = HeaderFor(spec, 0, "", "", index_type);
        std::string indices;
        std::string values;
        ASSERT_TRUE(encoding
                        .encode({reduce.layout, update.rows.size(), update.rows.data(),
                                 update.values.data()},
                                header, indices, values)
                        .ok());
        for (size_t piece : {1, 7, 1 << 20}) {
          const Decoded decoded = Decode(header, spec, indices, values, piece);
          ASSERT_TRUE(decoded.status.ok()) << decoded.status;
          EXPECT_EQ(decoded.rows, update.rows);
          EXPECT_EQ(decoded.values, update.values);
        }
      }
    }
  }
}

}  // namespace
}  // namespace sparseagg

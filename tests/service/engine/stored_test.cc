#include "service/engine/recovery/stored.h"

#include "service/engine/round/round_spec.h"
#include "tests/service/engine/testing.h"

namespace sparseagg {
namespace {

using testing::FailsWith;
using testing::Sparse;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

std::chrono::system_clock::time_point TimeAt(int64_t count) {
  return std::chrono::system_clock::time_point(std::chrono::system_clock::duration(count));
}

TEST(StoredTest, ADescriptionIsReadAsItWasWritten) {
  RoundDescription written;
  written.args.round_id = "r-1";
  written.args.request_id = "request";
  written.args.spec.durability = Durability::kDurable;
  TensorSpec modular = Sparse("m", 7, "sum", ValueType::kI64);
  modular.integer_overflow = IntegerOverflow::kModular;
  modular.plan = "sweep";
  written.args.spec.tensors = {Sparse("t", int64_t{1} << 62, "weighted_mean"), modular};
  written.create_time = TimeAt(1'700'000'000'123'456'789);
  const auto read = ReadDescription(WriteDescription(written));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->args.round_id, "r-1");
  EXPECT_EQ(read->args.request_id, "request");
  EXPECT_EQ(read->create_time, written.create_time);
  EXPECT_TRUE(SameSpec(read->args.spec, written.args.spec));
}

TEST(StoredTest, DetailsAreReadAsTheyWereWritten) {
  RoundSnapshot written;
  written.contributors = 3;
  written.bytes_received = uint64_t{1} << 60;
  written.failure = "why \"not\" \xff";  // quotes what need not be text
  written.seal_time = TimeAt(5);
  written.publish_time = TimeAt(6);
  written.tensors = {{.name = "t", .backend = "cpu", .nnz_received = 9, .nnz_result = 8}};
  written.tensors[0].reduction.plan = "sweep";
  Manifest manifest;
  manifest.contributors = 3;
  manifest.total_weight = 0.1 + 0.2;
  manifest.rejected = {{"NON_FINITE", 2}};
  manifest.duplicates = 4;
  manifest.updates_digest = std::string("\0\xff", 2);
  manifest.result_digest = "r";
  manifest.infinite_values = 1;
  manifest.publish_time = TimeAt(6);
  written.manifest = manifest;

  RoundSnapshot read;
  const absl::Status status = ReadDetails(WriteDetails(written), read);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(read.contributors, 3u);
  EXPECT_EQ(read.bytes_received, uint64_t{1} << 60);
  EXPECT_EQ(read.failure, "why \"not\" \xEF\xBF\xBD");
  EXPECT_EQ(read.seal_time, written.seal_time);
  EXPECT_EQ(read.publish_time, written.publish_time);
  ASSERT_EQ(read.tensors.size(), 1u);
  EXPECT_EQ(read.tensors[0].name, "t");
  EXPECT_EQ(read.tensors[0].backend, "cpu");
  EXPECT_EQ(read.tensors[0].reduction.plan, "sweep");
  EXPECT_EQ(read.tensors[0].nnz_received, 9u);
  EXPECT_EQ(read.tensors[0].nnz_result, 8u);
  ASSERT_TRUE(read.manifest.has_value());
  EXPECT_EQ(read.manifest->total_weight, 0.1 + 0.2);  // no bit is lost
  EXPECT_EQ(read.manifest->rejected, manifest.rejected);
  EXPECT_EQ(read.manifest->duplicates, 4u);
  EXPECT_EQ(read.manifest->updates_digest, manifest.updates_digest);
  EXPECT_EQ(read.manifest->result_digest, "r");
  EXPECT_EQ(read.manifest->infinite_values, 1u);
}

TEST(StoredTest, ADividedRoundIsReadAsItWasWritten) {
  const RowRange rows = {.first = {0, 65'536}, .end = {1, 0}};
  RoundDescription description;
  description.args.spec.durability = Durability::kMemory;
  description.args.spec.tree = {
      .leaves = {{"a", "a:1"}}, .self = "", .owners = true, .part = RoundPart{"rounds/r", rows}};
  const auto read = ReadDescription(WriteDescription(description));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->args.spec.tree, description.args.spec.tree);

  RoundSnapshot snapshot;
  snapshot.divided = {.parts = {{{"a", "a:1"}, "rounds/own-1-0", rows}},
                      .nnz = {7},
                      .infinite_values = 2,
                      .updates_digest = std::string(32, '\1'),
                      .result_digest = std::string(32, '\2')};
  snapshot.manifest = {.parts = snapshot.divided->parts};
  RoundSnapshot again;
  ASSERT_TRUE(ReadDetails(WriteDetails(snapshot), again).ok());
  EXPECT_EQ(again.divided, snapshot.divided);
  EXPECT_EQ(again.manifest->parts, snapshot.divided->parts);
}

TEST(StoredTest, HeadersAreReadAsTheyWereWritten) {
  EncodedHeader header;
  header.name = "emb";
  header.value_type = ValueType::kBF16;
  header.dense_shape = {5, 3};
  header.sparse_dim = 1;
  header.index_type = IndexType::kI32;
  header.nnz = 2;
  header.indices_bytes = 8;
  header.values_bytes = 12;
  header.values_encoding = "int8";
  const auto read = ReadHeaders(WriteHeaders(std::vector{header, header}));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 2u);
  const EncodedHeader& second = (*read)[1];
  EXPECT_EQ(second.name, "emb");
  EXPECT_EQ(second.encoding, "coo.raw");
  EXPECT_EQ(second.value_type, ValueType::kBF16);
  EXPECT_EQ(second.dense_shape, header.dense_shape);
  EXPECT_EQ(second.sparse_dim, 1u);
  EXPECT_EQ(second.index_type, IndexType::kI32);
  EXPECT_EQ(second.nnz, 2u);
  EXPECT_EQ(second.indices_bytes, 8u);
  EXPECT_EQ(second.values_bytes, 12u);
  EXPECT_EQ(second.values_encoding, "int8");
}

SparseTensor Tensor(const TensorSpec& spec, std::vector<uint64_t> rows, size_t value_bytes) {
  SparseTensor tensor;
  tensor.layout = ResultLayout(*MakeReduceSpec(spec));
  tensor.indices.kept().assign(rows.begin(), rows.end());
  tensor.values.resize(value_bytes);
  for (size_t i = 0; i < value_bytes; ++i) tensor.values[i] = static_cast<std::byte>(i + 1);
  return tensor;
}

std::string Join(const std::vector<std::string_view>& pieces) {
  std::string joined;
  for (const std::string_view piece : pieces) joined += piece;
  return joined;
}

TEST(StoredTest, AResultIsReadAsItWasWritten) {
  RoundSpec spec;
  spec.tensors = {Sparse("t", 100), Sparse("none", 100), Sparse("count", 100, "count")};
  const std::vector<SparseTensor> tensors = {Tensor(spec.tensors[0], {1, 50}, 8),
                                             Tensor(spec.tensors[1], {}, 0),
                                             Tensor(spec.tensors[2], {7}, 8)};
  std::vector<uint64_t> sizes;
  const std::string bytes = Join(ResultPieces(tensors, sizes));
  const auto read = ReadResult(bytes, spec);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, tensors);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(ReadResult(bytes.substr(0, size), spec).status(),
                FailsWith(kDataLoss, "STORE_CORRUPT"));
  }
  EXPECT_THAT(ReadResult(bytes + "x", spec).status(), FailsWith(kDataLoss, "STORE_CORRUPT"));
}

TEST(StoredTest, RowsThatAreAllThereAreNotWritten) {
  RoundSpec spec;
  spec.tensors = {Sparse("t", 3), Sparse("u", 3)};
  std::vector<SparseTensor> tensors = {Tensor(spec.tensors[0], {}, 12),
                                       Tensor(spec.tensors[1], {0, 1, 2}, 12)};
  tensors[0].indices = RowIds::Every(3);
  std::vector<uint64_t> sizes;
  const std::string bytes = Join(ResultPieces(tensors, sizes));
  EXPECT_EQ(bytes.size(), (8 + 12) + (8 + 24 + 12));
  const auto read = ReadResult(bytes, spec);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, tensors);
  EXPECT_THAT((*read)[0].indices.kept(), ::testing::IsEmpty());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(ReadResult(bytes.substr(0, size), spec).status(),
                FailsWith(kDataLoss, "STORE_CORRUPT"));
  }
  for (const char nnz : {0, 1, 2, 4}) {  // but not all of them
    std::string other = bytes;
    other[0] = nnz;
    EXPECT_THAT(ReadResult(other, spec).status(), FailsWith(kDataLoss, "STORE_CORRUPT"));
  }
}

TEST(StoredTest, WhatWasNotWrittenHereIsRefused) {
  RoundSnapshot snapshot;
  for (const char* text : {"", "{", "[]", "7", "{\"round_id\":7}", "\"text\""}) {
    EXPECT_THAT(ReadDescription(text).status(), FailsWith(kDataLoss, "STORE_CORRUPT")) << text;
    EXPECT_THAT(ReadDetails(text, snapshot), FailsWith(kDataLoss, "STORE_CORRUPT")) << text;
  }
  for (const char* text : {"", "{", "[{}]", "[7]"}) {
    EXPECT_THAT(ReadHeaders(text).status(), FailsWith(kDataLoss, "STORE_CORRUPT")) << text;
  }
}

// A text that a later version, or a person, may have written.
TEST(StoredTest, AWordOrNumberThatThisVersionDoesNotKnowIsRefused) {
  RoundDescription description;
  description.args.spec.tensors = {Sparse("t", 100)};
  std::string text = WriteDescription(description);
  ASSERT_TRUE(ReadDescription(text).ok());
  text.replace(text.find("\"f32\""), 5, "\"f33\"");
  EXPECT_THAT(ReadDescription(text).status(), FailsWith(kDataLoss, "STORE_CORRUPT"));

  const std::vector<EncodedHeader> one(1);
  std::string headers = WriteHeaders(one);
  ASSERT_TRUE(ReadHeaders(headers).ok()) << headers;
  headers.replace(headers.find("\"value_type\":3"), 14, "\"value_type\":9");
  EXPECT_THAT(ReadHeaders(headers).status(), FailsWith(kDataLoss, "STORE_CORRUPT"));
}

TEST(StoredTest, AnIntegerThatIsNoneOrBeyondItsTypeIsRefused) {
  const std::vector<EncodedHeader> one(1);
  const std::string headers = WriteHeaders(one);
  const std::string field = "\"sparse_dim\":0";  // 32 bits
  ASSERT_NE(headers.find(field), std::string::npos) << headers;
  for (const char* number :
       {"1.5", "1.7e+20", "4294967296", "-1", "18446744073709551616", "true"}) {
    std::string changed = headers;
    changed.replace(changed.find(field), field.size(), std::string("\"sparse_dim\":") + number);
    EXPECT_THAT(ReadHeaders(changed).status(), FailsWith(kDataLoss, "STORE_CORRUPT")) << number;
  }
}

}  // namespace
}  // namespace sparseagg

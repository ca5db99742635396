#include "client/result_reader.h"

#include <utility>

#include "tests/client/support.h"

namespace sparseagg::client {
namespace {

using sparseagg::testing::HasError;
using sparseagg::testing::ValuesOf;

// "a": i64 [8] with entries 2 -> 5 and 6 -> 7, then "b": dense u32 [2] of 8, 9.
v1::AggregateHeader TwoTensors() {
  v1::AggregateHeader header;
  v1::TensorHeader* a = header.add_tensors();
  a->set_name("a");
  a->set_value_type(v1::VALUE_TYPE_I64);
  a->add_dense_shape(8);
  a->set_sparse_dim(1);
  a->set_index_type(v1::INDEX_TYPE_I32);
  a->set_nnz(2);
  a->set_indices_bytes(8);
  a->set_values_bytes(16);
  v1::TensorHeader* b = header.add_tensors();
  b->set_name("b");
  b->set_value_type(v1::VALUE_TYPE_U32);
  b->add_dense_shape(2);
  b->set_nnz(1);
  b->set_values_bytes(8);
  return header;
}

const std::string kBytes("\2\0\0\0\6\0\0\0\5\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0\10\0\0\0\11\0\0\0", 32);

v1::AggregateChunk Chunk(uint64_t offset, const std::string& data) {
  v1::AggregateChunk chunk;
  chunk.set_offset(offset);
  chunk.set_data(data);
  return chunk;
}

TEST(ResultReaderTest, AcceptsChunksOfEverySize) {
  for (size_t size = 1; size <= kBytes.size(); ++size) {
    ResultReader reader(1000, {});
    ASSERT_TRUE(reader.Start(TwoTensors()).ok());
    for (size_t offset = 0; offset < kBytes.size(); offset += size) {
      ASSERT_TRUE(reader.Append(Chunk(offset, kBytes.substr(offset, size))).ok());
    }
    const Result result = std::move(reader).Finish().value();
    ASSERT_EQ(result.tensors.size(), 2u);
    EXPECT_EQ(result.tensors[0].indices, (std::vector<uint64_t>{2, 6}));
    EXPECT_EQ(ValuesOf<int64_t>(result.tensors[0]), (std::vector<int64_t>{5, 7}));
    EXPECT_EQ(ValuesOf<uint32_t>(result.tensors[1]), (std::vector<uint32_t>{8, 9}));
  }
}

TEST(ResultReaderTest, FinishesTensorsWithoutBytes) {
  v1::AggregateHeader header = TwoTensors();
  header.mutable_tensors()->DeleteSubrange(1, 1);
  header.mutable_tensors(0)->set_nnz(0);
  header.mutable_tensors(0)->set_indices_bytes(0);
  header.mutable_tensors(0)->set_values_bytes(0);
  ResultReader reader(1000, {});
  ASSERT_TRUE(reader.Start(header).ok());
  EXPECT_EQ(std::move(reader).Finish()->tensors.at(0).nnz(), 0u);
}

// The dense answer of a server to an empty selection.
v1::AggregateHeader NoRows() {
  v1::AggregateHeader header = TwoTensors();
  header.mutable_tensors()->DeleteSubrange(0, 1);
  v1::TensorHeader& b = *header.mutable_tensors(0);
  b.set_dense_shape(0, 0);
  b.add_dense_shape(3);
  b.set_nnz(0);
  b.set_values_bytes(0);
  return header;
}

TEST(ResultReaderTest, ADenseTensorMayHaveNoRow) {
  ResultReader reader(1000, {});
  ASSERT_TRUE(reader.Start(NoRows()).ok());
  const Tensor tensor = std::move(reader).Finish()->tensors.at(0);
  EXPECT_EQ(tensor.dense_shape, (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(tensor.nnz(), 0u);
  EXPECT_TRUE(tensor.values.empty());
}

TEST(ResultReaderTest, RefusesEntriesOfNoRow) {
  v1::AggregateHeader header = NoRows();
  header.mutable_tensors(0)->set_values_bytes(4);
  EXPECT_TRUE(HasError(ResultReader(1000, {}).Start(header), "PROTOCOL_ERROR", "\"b\""));
  header = NoRows();
  header.mutable_tensors(0)->set_dense_shape(1, -1);
  EXPECT_FALSE(ResultReader(1000, {}).Start(header).ok());
}

TEST(ResultReaderTest, RefusesMessagesThatContradictThemselves) {
  ResultReader gap(1000, {});
  ASSERT_TRUE(gap.Start(TwoTensors()).ok());
  EXPECT_TRUE(HasError(gap.Append(Chunk(1, "x")), "PROTOCOL_ERROR", "expected offset 0 of 32"));
  EXPECT_TRUE(HasError(gap.Append(Chunk(0, kBytes + "x")), "PROTOCOL_ERROR", "33 bytes"));
  EXPECT_TRUE(HasError(gap.Start(TwoTensors()), "PROTOCOL_ERROR", "two headers"));
  EXPECT_TRUE(HasError(std::move(gap).Finish().status(), "PROTOCOL_ERROR", "ends after 0 of 32"));
  ResultReader no_header(1000, {});
  EXPECT_TRUE(HasError(no_header.Append(Chunk(0, "")), "PROTOCOL_ERROR", "offset 0"));
}

TEST(ResultReaderTest, RefusesSizesBeforeItTakesMemory) {
  ResultReader limited(31, {});
  EXPECT_TRUE(HasError(limited.Start(TwoTensors()), "RESULT_TOO_LARGE", "tensor \"b\""));
  v1::AggregateHeader lies = TwoTensors();
  lies.mutable_tensors(0)->set_nnz(uint64_t{1} << 60);
  ResultReader reader(1000, {});
  EXPECT_TRUE(HasError(reader.Start(lies), "SIZE_MISMATCH", "tensor \"a\""));
}

TEST(ResultReaderTest, RefusesAnIndexBeyondTheShape) {
  v1::AggregateHeader header = TwoTensors();
  header.mutable_tensors(0)->set_dense_shape(0, 6);
  ResultReader reader(1000, {});
  ASSERT_TRUE(reader.Start(header).ok());
  EXPECT_TRUE(HasError(reader.Append(Chunk(0, kBytes)), "INDEX_OUT_OF_RANGE", "index 6"));
}

}  // namespace
}  // namespace sparseagg::client

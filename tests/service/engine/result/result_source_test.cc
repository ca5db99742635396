#include "service/engine/result/result_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sparseagg {
namespace {

using ::testing::ElementsAre;

// Rows 1 and 4 of six rows of three f32.
SparseTensor TwoRows() {
  SparseTensor tensor;
  tensor.layout = {.num_rows = 6, .row_width = 3, .value_type = ValueType::kF32};
  tensor.indices = {1, 4};
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  tensor.values.assign(bytes, bytes + values.size() * sizeof(float));
  return tensor;
}

// Reads everything in pieces of `piece` bytes.
template <typename T>
std::vector<T> ReadAll(const ByteSource& source, size_t piece) {
  std::vector<T> array(source.bytes() / sizeof(T));
  char* out = reinterpret_cast<char*>(array.data());
  for (uint64_t offset = 0; offset < source.bytes(); offset += piece) {
    const size_t n = std::min<uint64_t>(piece, source.bytes() - offset);
    source.Read(offset, n, out + offset);
  }
  return array;
}

class ResultSourceTest : public ::testing::TestWithParam<size_t> {};

TEST_P(ResultSourceTest, SparseIndicesAreUnflattened) {
  const SparseTensor tensor = TwoRows();
  const auto source = MakeIndices(tensor, {2, 3});
  EXPECT_THAT(ReadAll<int64_t>(*source, GetParam()), ElementsAre(0, 1, 1, 1));
}

TEST_P(ResultSourceTest, IndicesOfSomeEntries) {
  const SparseTensor tensor = TwoRows();
  const auto source = MakeIndices(tensor, {6}, {1});
  EXPECT_THAT(ReadAll<int64_t>(*source, GetParam()), ElementsAre(4));
}

TEST_P(ResultSourceTest, SparseValuesAreTheStoredOnes) {
  const SparseTensor tensor = TwoRows();
  EXPECT_THAT(ReadAll<float>(*MakeValues(tensor), GetParam()), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_P(ResultSourceTest, PickedValuesKeepTheOrderAndAreZeroWhereAbsent) {
  const SparseTensor tensor = TwoRows();
  const auto source = MakeValues(tensor, FindRows(tensor, {4, 0, 1, 4}));
  EXPECT_THAT(ReadAll<float>(*source, GetParam()), ElementsAre(4, 5, 6, 0, 0, 0, 1, 2, 3, 4, 5, 6));
}

TEST_P(ResultSourceTest, DenseValuesAreZeroBetweenTheRows) {
  const SparseTensor tensor = TwoRows();
  EXPECT_THAT(ReadAll<float>(*MakeDenseValues(tensor), GetParam()),
              ElementsAre(0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 4, 5, 6, 0, 0, 0));
}

// A tensor with all of 6 rows, once with stored indices and once without.
std::pair<SparseTensor, SparseTensor> EveryRow() {
  SparseTensor kept = TwoRows();
  kept.indices = {0, 1, 2, 3, 4, 5};
  for (size_t i = 0; i < 48; ++i) kept.values.push_back(static_cast<std::byte>(i));
  SparseTensor known = kept;
  known.indices = RowIds::Every(6);
  return {kept, known};
}

TEST_P(ResultSourceTest, RowsThatAreNotKeptGiveTheSameBytes) {
  const auto [kept, known] = EveryRow();
  using Bytes = std::vector<char>;
  const auto read = [](const std::unique_ptr<ByteSource>& source) -> Bytes {
    return ReadAll<char>(*source, GetParam());
  };
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{6}, {2, 3}}) {
    EXPECT_EQ(read(MakeIndices(known, dims)), read(MakeIndices(kept, dims)));
    EXPECT_EQ(read(MakeIndices(known, dims, {1, 5})), read(MakeIndices(kept, dims, {1, 5})));
  }
  EXPECT_EQ(read(MakePackedIndices(known.indices)), read(MakePackedIndices(kept.indices)));
  EXPECT_EQ(read(MakeDenseValues(known)), read(MakeValues(kept)));
  EXPECT_EQ(read(MakeDenseValues(kept)), read(MakeValues(kept)));
  const std::vector<uint64_t> rows = {5, 0, 6};
  EXPECT_EQ(FindRows(known, rows), FindRows(kept, rows));
}

TEST(ResultSourceOfEveryRowTest, DenseValuesAreSentFromMemory) {
  const auto [kept, known] = EveryRow();
  EXPECT_EQ(MakeDenseValues(known)->InMemory(), reinterpret_cast<const char*>(known.values.data()));
  EXPECT_EQ(MakeDenseValues(TwoRows())->InMemory(), nullptr);
}

// Pieces that end inside a value, inside a row, at a row's end, and after the end of everything.
INSTANTIATE_TEST_SUITE_P(PieceSizes, ResultSourceTest,
                         ::testing::Values(1, 3, 8, 12, 16, 13, 1000));

TEST(FindRowsTest, MarksWhatIsAbsent) {
  EXPECT_THAT(FindRows(TwoRows(), {0, 1, 5}), ElementsAre(kAbsentRow, 0, kAbsentRow));
}

}  // namespace
}  // namespace sparseagg

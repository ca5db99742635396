#include "client/io/tensor_file.h"

#include "tests/client/support.h"

namespace sparseagg::client {
namespace {

using testing::HasError;
using testing::MakeTensor;

class TensorFileTest : public testing::FolderTest {
 protected:
  // Of the tensors of a file that are read as values of 8 bytes.
  uint64_t BytesRead(const std::string& path) const {
    ReadOptions options;
    options.value_type = ValueType::kF64;
    const std::vector<Tensor> tensors = ReadTensors(path, options).value();
    uint64_t bytes = 0;
    for (const Tensor& tensor : tensors) {
      bytes += tensor.indices.size() * sizeof(uint64_t) + tensor.values.size();
    }
    return bytes;
  }
};

TEST_F(TensorFileTest, TheBoundOfAMatrixMarketFileHoldsForItsShortestEntries) {
  const std::string path =
      WriteFile("m.mtx",
                "%%MatrixMarket matrix coordinate pattern symmetric\n9 9 8\n2 1\n3 1\n4 1\n5 1\n"
                "6 1\n7 1\n8 1\n9 1\n");
  EXPECT_EQ(BytesRead(path), 2 * 8 * 16);
  EXPECT_GE(TensorBytesMax(path).value(), BytesRead(path));
  EXPECT_LE(TensorBytesMax(path).value(), 8 * ReadFile(path).size());
}

TEST_F(TensorFileTest, TheBoundOfAnArchiveHoldsForItsSmallestTypes) {
  const TensorSpec scalars{"s", ValueType::kF16, {100, 100}, 2};
  const TensorSpec rows{"r", ValueType::kF16, {100, 4}, 1};
  const std::vector<Tensor> tensors = {
      MakeTensor<uint16_t>(scalars, {1, 3, 9999}, {1, 2, 3}),
      MakeTensor<uint16_t>(rows, {7, 8}, {1, 2, 3, 4, 5, 6, 7, 8})};
  ASSERT_TRUE(WriteTensors(Path("two.npz"), ViewsOf(tensors)).ok());
  EXPECT_GE(TensorBytesMax(Path("two.npz")).value(), BytesRead(Path("two.npz")));
  EXPECT_LE(TensorBytesMax(Path("two.npz")).value(), 4 * ReadFile(Path("two.npz")).size());
  ASSERT_TRUE(WriteTensors(Path("one.npz"), ViewsOf({tensors[0]})).ok());
  EXPECT_GE(TensorBytesMax(Path("one.npz")).value(), BytesRead(Path("one.npz")));
}

TEST_F(TensorFileTest, AFileThatIsNotThereHasNoBound) {
  EXPECT_TRUE(HasError(TensorBytesMax(Path("no.npz")).status(), "FILE_UNUSABLE", "no.npz"));
  EXPECT_TRUE(HasError(TensorBytesMax(Path("no.mtx")).status(), "FILE_UNUSABLE", "no.mtx"));
  EXPECT_TRUE(HasError(TensorBytesMax(Path("no.txt")).status(), "UNKNOWN_FORMAT", "no.txt"));
}

}  // namespace
}  // namespace sparseagg::client

#include "client/io/tensor_file.h"

#include "client/io/npy.h"
#include "client/io/zip_archive.h"
#include "tests/client/io/gzip.h"
#include "tests/client/support.h"

namespace sparseagg::client {
namespace {

using testing::HasError;
using testing::MakeTensor;

class TensorFileTest : public testing::FolderTest {
 protected:
  // The bytes of the tensors of a file, read with values of 8 bytes.
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
  EXPECT_LE(TensorBytesMax(path).value(), 9 * ReadFile(path).size());
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

TEST_F(TensorFileTest, TheBoundOfAnArrayHoldsForItsDiagonal) {
  std::string text = "%%MatrixMarket matrix array integer skew-symmetric\n1000 1000";
  for (int i = 0; i < 999 * 1000 / 2; ++i) text += "\n1";
  const std::string path = WriteFile("m.mtx", text);
  EXPECT_GE(TensorBytesMax(path).value(), BytesRead(path));
  EXPECT_EQ(TensorBytesMax(WriteFile("m.mtx.gz", testing::Gzip(text))).value(), 9 * text.size());
}

TEST_F(TensorFileTest, TheBoundOfAnArchiveHoldsForElementsOfOneByte) {
  const auto array = [](const std::string& name, std::string_view descr, std::vector<int64_t> shape,
                        std::string_view bytes) {
    return ZipMember{name + ".npy", NpyHeader(descr, shape), bytes};
  };
  const std::string blocks(100 * 100, '\1');
  const int64_t shape[] = {100, 100};
  const int32_t numbers[] = {0, 1};
  const auto* zero_and_one = reinterpret_cast<const char*>(numbers);
  ASSERT_TRUE(WriteZip(Path("bsr.npz"),
                       {array("format", "|S3", {}, "bsr"),
                        array("shape", "<i8", {2}, {reinterpret_cast<const char*>(shape), 16}),
                        array("data", "|i1", {1, 100, 100}, blocks),
                        array("indices", "<i4", {1}, {zero_and_one, 4}),
                        array("indptr", "<i4", {2}, {zero_and_one, 8})})
                  .ok());
  EXPECT_EQ(BytesRead(Path("bsr.npz")), 16 * blocks.size());
  EXPECT_GE(TensorBytesMax(Path("bsr.npz")).value(), 16 * blocks.size());
}

TEST_F(TensorFileTest, TheNameMayBeInCapitals) {
  const Tensor tensor = MakeTensor<float>({"a", ValueType::kF32, {3, 4}, 2}, {1}, {2});
  for (const char* name : {"m.MTX", "m.NPZ", "m.Mtx"}) {
    ASSERT_TRUE(WriteTensors(Path(name), ViewsOf({tensor})).ok()) << name;
    EXPECT_EQ(ReadTensors(Path(name)).value().at(0).indices, tensor.indices) << name;
  }
  EXPECT_TRUE(IsMatrixMarketPath("a/b.MTX.gz"));
  EXPECT_FALSE(IsMatrixMarketPath("a.npz"));
}

TEST_F(TensorFileTest, AGzipFileIsNotWritten) {
  const Tensor tensor = MakeTensor<float>({"a", ValueType::kF32, {3, 4}, 2}, {1}, {2});
  EXPECT_TRUE(
      HasError(CheckOutputPath("o.mtx.gz"), "UNKNOWN_FORMAT", ".gz can be read but not written"));
  EXPECT_TRUE(HasError(WriteTensors(Path("o.mtx.gz"), ViewsOf({tensor})), "UNKNOWN_FORMAT", ".gz"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(TensorFileTest, AFileThatIsNotThereHasNoBound) {
  EXPECT_TRUE(HasError(TensorBytesMax(Path("no.npz")).status(), "FILE_UNUSABLE", "no.npz"));
  EXPECT_TRUE(HasError(TensorBytesMax(Path("no.mtx")).status(), "FILE_UNUSABLE", "no.mtx"));
  EXPECT_TRUE(HasError(TensorBytesMax(Path("no.txt")).status(), "UNKNOWN_FORMAT", "no.txt"));
}

}  // namespace
}  // namespace sparseagg::client

#include "client/io/matrix_market.h"

#include <cstdint>

#include "tests/client/io/gzip.h"
#include "tests/client/support.h"

namespace sparseagg::client {
namespace {

using sparseagg::testing::Gzip;
using sparseagg::testing::HasError;
using sparseagg::testing::MakeTensor;
using sparseagg::testing::SameTensor;
using sparseagg::testing::ValuesOf;

class MatrixMarketTest : public sparseagg::testing::FolderTest {
 protected:
  absl::StatusOr<Tensor> Read(const std::string& text, ReadOptions options = {}) {
    return ReadMatrixMarket(WriteFile("m.mtx", text), options);
  }
  absl::Status ReadError(const std::string& text) { return Read(text).status(); }
};

TEST_F(MatrixMarketTest, ReadsCoordinatesFromOne) {
  const Tensor tensor = Read(
                            "%%MatrixMarket matrix coordinate real general\n"
                            "% a comment\n\n"
                            " 3\t4  2 \r\n1 1 0.5\n3 4 -2e3\n")
                            .value();
  EXPECT_EQ(tensor.dense_shape, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(tensor.sparse_dim, 2u);
  EXPECT_EQ(tensor.indices, (std::vector<uint64_t>{0, 11}));
  EXPECT_EQ(ValuesOf<double>(tensor), (std::vector<double>{0.5, -2000}));
}

TEST_F(MatrixMarketTest, CommentsAndBlankLinesMayStandAnywhereAfterTheBanner) {
  const Tensor entries = Read(
                             "%%MatrixMarket matrix coordinate integer general\n"
                             "% a\n2 2 2\n\n% b\n1 1 5\n  % c\n\n2 2 6\n% d\n \t\r\n% e")
                             .value();
  EXPECT_EQ(entries.indices, (std::vector<uint64_t>{0, 3}));
  EXPECT_EQ(ValuesOf<int64_t>(entries), (std::vector<int64_t>{5, 6}));
  const Tensor values =
      Read("%%MatrixMarket matrix array integer general\n2 1\n% a\n5\n\n% b\n6\n% c\n").value();
  EXPECT_EQ(ValuesOf<int64_t>(values), (std::vector<int64_t>{5, 6}));
}

TEST_F(MatrixMarketTest, ReadsIntegersAndPatterns) {
  EXPECT_EQ(ValuesOf<int64_t>(
                Read("%%MatrixMarket matrix coordinate integer general\n2 2 1\n2 1 -7\n").value()),
            (std::vector<int64_t>{-7}));
  EXPECT_EQ(ValuesOf<int64_t>(
                Read("%%MatrixMarket MATRIX Coordinate Pattern General\n2 2 1\n2 1\n").value()),
            (std::vector<int64_t>{1}));
}

TEST_F(MatrixMarketTest, ExpandsSymmetricMatrices) {
  const Tensor symmetric =
      Read("%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 2 5\n3 1 7\n").value();
  EXPECT_EQ(symmetric.indices, (std::vector<uint64_t>{4, 6, 2}));
  EXPECT_EQ(ValuesOf<double>(symmetric), (std::vector<double>{5, 7, 7}));
  const Tensor skew =
      Read("%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 2\n3 1 -7\n2 1 4\n").value();
  EXPECT_EQ(ValuesOf<double>(skew), (std::vector<double>{-7, 7, 4, -4}));
}

TEST_F(MatrixMarketTest, ReadsArraysColumnByColumnAsDense) {
  const Tensor tensor =
      Read("%%MatrixMarket matrix array real general\n2 3\n1\n4\n2\n5\n3\n6\n").value();
  EXPECT_EQ(tensor.sparse_dim, 0u);
  EXPECT_EQ(ValuesOf<double>(tensor), (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

TEST_F(MatrixMarketTest, ReadsValuesAsTheTypeAskedFor) {
  ReadOptions options;
  options.value_type = ValueType::kF32;
  const std::string text = "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 0.1\n";
  EXPECT_EQ(ValuesOf<float>(Read(text, options).value()), (std::vector<float>{0.1f}));
}

TEST_F(MatrixMarketTest, RoundsValuesOnceToTheTypeAskedFor) {
  const auto value = [&](ValueType type, const std::string& text) {
    ReadOptions options;
    options.value_type = type;
    const std::string head = "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 ";
    return ValuesOf<uint16_t>(Read(head + text + "\n", options).value()).at(0);
  };
  EXPECT_EQ(value(ValueType::kBF16, "1.00390625000000000000001"), 0x3F81);
  EXPECT_EQ(value(ValueType::kF16, "65519.99999999999999999"), 0x7BFF);
  EXPECT_EQ(value(ValueType::kF16, "2.980232238769531250001e-8"), 0x0001);
}

TEST_F(MatrixMarketTest, ReadsUnsignedIntegersAsSuch) {
  const Tensor tensor = Read(
                            "%%MatrixMarket matrix coordinate unsigned-integer general\n"
                            "2 2 2\n1 1 18446744073709551615\n2 2 7\n")
                            .value();
  EXPECT_EQ(tensor.layout.value_type, ValueType::kU64);
  EXPECT_EQ(ValuesOf<uint64_t>(tensor), (std::vector<uint64_t>{UINT64_MAX, 7}));
}

TEST_F(MatrixMarketTest, ReadsWholeNumbersThatAreWrittenAsFractions) {
  const Tensor tensor = Read(
                            "%%MatrixMarket matrix coordinate integer general\n"
                            "1 1e+1 2\n1 1 1e+16\n1 10.0 3.0\n")
                            .value();
  EXPECT_EQ(tensor.indices, (std::vector<uint64_t>{0, 9}));
  EXPECT_EQ(ValuesOf<int64_t>(tensor), (std::vector<int64_t>{10'000'000'000'000'000, 3}));
}

TEST_F(MatrixMarketTest, ReadsNumbersOfFortran) {
  EXPECT_EQ(ValuesOf<double>(Read("%%MatrixMarket matrix array real general\n4 1\n"
                                  "1.5D+02\n-2.5d-1\n1Q0\n0.5-100\n")
                                 .value()),
            (std::vector<double>{150, -0.25, 1, 0.5e-100}));
}

TEST_F(MatrixMarketTest, ReadsSymmetricArraysFromTheirLowerTriangle) {
  const Tensor symmetric =
      Read("%%MatrixMarket matrix array real symmetric\n3 3\n1\n2\n3\n4\n5\n6\n").value();
  EXPECT_EQ(symmetric.sparse_dim, 0u);
  EXPECT_EQ(ValuesOf<double>(symmetric), (std::vector<double>{1, 2, 3, 2, 4, 5, 3, 5, 6}));
  const Tensor skew =
      Read("%%MatrixMarket matrix array integer skew-symmetric\n3 3\n-2\n-5\n+7\n").value();
  EXPECT_EQ(ValuesOf<int64_t>(skew), (std::vector<int64_t>{0, 2, 5, -2, 0, -7, -5, 7, 0}));
  EXPECT_EQ(
      ValuesOf<double>(Read("%%MatrixMarket matrix array real skew-symmetric\n1 1\n").value()),
      (std::vector<double>{0}));
}

TEST_F(MatrixMarketTest, ReadsTheUpperTriangleOfASymmetricMatrix) {
  const Tensor tensor =
      Read("%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n2 2 1\n1 2 5\n2 3 7\n").value();
  EXPECT_EQ(tensor.indices, (std::vector<uint64_t>{4, 1, 3, 5, 7}));
  EXPECT_EQ(ValuesOf<double>(tensor), (std::vector<double>{1, 5, 5, 7, 7}));
  EXPECT_EQ(
      ValuesOf<double>(
          Read("%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n1 2 5\n").value()),
      (std::vector<double>{5, -5}));
}

TEST_F(MatrixMarketTest, TakesZerosOnTheDiagonalOfASkewSymmetricMatrix) {
  const Tensor tensor = Read(
                            "%%MatrixMarket matrix coordinate real skew-symmetric\n"
                            "2 2 3\n1 1 0\n2 1 5\n2 2 -0.0\n")
                            .value();
  EXPECT_EQ(tensor.indices, (std::vector<uint64_t>{0, 2, 1, 3}));
  EXPECT_EQ(ValuesOf<double>(tensor), (std::vector<double>{0, 5, -5, 0}));
}

TEST_F(MatrixMarketTest, ReadsWhatOtherProgramsMakeOfTheFormat) {
  const std::string body = "1 2 1\n1 2 1.5\n";
  for (const char* banner : {"%%matrixmarket matrix coordinate real general",
                             "%MatrixMarket matrix coordinate real general",
                             "\xEF\xBB\xBF%%MatrixMarket matrix coordinate real general",
                             "%%MatrixMarket\tMATRIX  Coordinate Double GENERAL \r"}) {
    const Tensor tensor = Read(banner + ("\n" + body)).value();
    EXPECT_EQ(tensor.indices, std::vector<uint64_t>{1}) << banner;
    EXPECT_EQ(ValuesOf<double>(tensor), std::vector<double>{1.5}) << banner;
  }
  const std::string banner = "%%MatrixMarket matrix coordinate real general\n";
  for (const char* text :
       {"1 2 1 % size\n1 2 1.5 % first\n", "1 2 1\n1 2 1.5%first", "1 2 1\r1 2 1.5\r",
        "1 2 1\n1 2 1.5\n\x1A", "1 2 1\n1 2 1.5\x1A\x1A\x1A"}) {
    const Tensor tensor = Read(banner + text).value();
    EXPECT_EQ(ValuesOf<double>(tensor), std::vector<double>{1.5}) << text;
  }
}

TEST_F(MatrixMarketTest, UnpacksGzipWhateverTheName) {
  const std::string text = "%%MatrixMarket matrix coordinate real general\n2 2 1\n2 1 1.5\n";
  for (const char* name : {"m.mtx.gz", "m.MTX.GZ", "m.mtx"}) {
    const Tensor tensor = ReadTensors(WriteFile(name, Gzip(text))).value().at(0);
    EXPECT_EQ(tensor.indices, std::vector<uint64_t>{2}) << name;
  }
  EXPECT_EQ(ReadTensors(WriteFile("browser.mtx.gz", text)).value().at(0).nnz(), 1u);
}

TEST_F(MatrixMarketTest, UnpacksNoMoreThanTheLimit) {
  const std::string head = "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n";
  ReadOptions options;
  options.bytes_max = 1'000;
  const std::string bomb = Gzip(head + std::string(100'000, '\n'));
  EXPECT_LT(bomb.size(), 1'000u);
  EXPECT_TRUE(
      HasError(Read(bomb, options).status(), "FILE_TOO_LARGE", "unpacks to more than 1000"));
  EXPECT_TRUE(
      HasError(Read(Gzip("%%MatrixMarket matrix array real general\n30000 30000\n1\n")).status(),
               "MALFORMED_FILE", "900000000 entries are stated, but the file has only"));
}

TEST_F(MatrixMarketTest, WritesWhatItReads) {
  for (const uint32_t sparse_dim : {2u, 0u}) {
    Tensor tensor =
        sparse_dim == 2
            ? MakeTensor<double>({"m", ValueType::kF64, {3, 2}, 2}, {5, 0}, {0.1, 1e-300})
            : MakeTensor<double>({"m", ValueType::kF64, {3, 2}, 0}, {0}, {1, 2, 3, 4, 5, 1e22});
    tensor.name.clear();
    ASSERT_TRUE(WriteTensors(Path("out.mtx"), ViewsOf({tensor})).ok());
    EXPECT_TRUE(SameTensor(ReadTensors(Path("out.mtx")).value().at(0), tensor)) << sparse_dim;
  }
}

TEST_F(MatrixMarketTest, RefusesToWriteWhatIsNoMatrix) {
  const Tensor rows = MakeTensor<float>({"emb", ValueType::kF32, {3, 2}, 1}, {0}, {1, 2});
  EXPECT_TRUE(
      HasError(WriteTensors(Path("o.mtx"), ViewsOf({rows})), "UNSUITABLE_FORMAT", "use .npz"));
  EXPECT_TRUE(HasError(WriteTensors(Path("o.mtx"), ViewsOf({})), "UNSUITABLE_FORMAT", "0 tensors"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(MatrixMarketTest, NamesTheLineThatIsWrong) {
  const std::string head = "%%MatrixMarket matrix coordinate real general\n";
  struct Case {
    std::string text;
    const char* message;
  };
  const Case cases[] = {
      {"", "line 1: is not \"%%MatrixMarket"},
      {"3 3 1\n1 1 1\n", "line 1: is not \"%%MatrixMarket"},
      {"%%MatrixMarket matrix coordinate complex general\n1 1 0\n",
       "line 1: field \"complex\" is not real, integer, unsigned-integer or pattern; write .real"},
      {"%%MatrixMarket matrix coordinate real hermitian\n1 1 0\n",
       "line 1: symmetry \"hermitian\""},
      {"%%MatrixMarket vector coordinate real general\n1 1 0\n", "line 1: \"vector coordinate\""},
      {head, "line 2: the file ends where the size line should be"},
      {head + "2 2\n", "line 2: is not \"rows columns entries\""},
      {head + "2 -2 1\n", "line 2: is not"},
      {head + "0 2 0\n", "line 2: rows 0 is not in [1, 2^63)"},
      {head + "2 2 2\n1 1 1\n", "line 4: the file ends where an entry should be"},
      {head + "2 2 1\n3 1 1\n", "line 3: row 3 is not in [1, 2]"},
      {head + "2 2 1\n1 0 1\n", "line 3: column 0 is not in [1, 2]"},
      {head + "2 2 1\n1 1 nan\n", "line 3: value \"nan\" is not a finite f64"},
      {head + "2 2 1\n1 1\n", "line 3: is not \"row column value\""},
      {head + "2 2 1\n1 1 1\n2 2 2\n", "line 4: follows the last of 1 entries"},
      {"%%MatrixMarket matrix coordinate real symmetric\n2 3 0\n", "2 rows and 3 columns"},
      {"%%MatrixMarket matrix array pattern general\n2 2\n", "line 1: a pattern"},
      {"%%MatrixMarket matrix coordinate pattern skew-symmetric\n2 2 0\n", "line 1: a pattern"},
      {"%%MatrixMarket matrix array real symmetric\n2 2\n1\n2\n",
       "line 5: the file ends where a value should be"},
      {"%%MatrixMarket matrix array real symmetric\n2 2\n1\n2\n3\n4\n",
       "line 6: follows the last of 3 values"},
      {"%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n2 1 5\n1 2 5\n",
       "line 4: row 1 column 2 is above the diagonal, but earlier entries are below"},
      {"%%MatrixMarket matrix coordinate pattern symmetric\n3 3 3\n2 3\n1 1\n3 1\n",
       "line 5: row 3 column 1 is below the diagonal, but earlier entries are above"},
      {"%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 2 5\n",
       "line 3: row 2 column 2 is on the diagonal and not 0"},
      {head + "2 2 1\n1 1 1,5\n", "line 3: value \"1,5\" is not a finite f64"},
      {head + "2 2 1\n1 1 1.5 2\n", "line 3: is not \"row column value\""},
      {head + "2 2 1\n1 1.5 1\n", "line 3: column 1.5 is not in [1, 2]"},
      {head + "2 2 1\n1 1 " + std::string(50, '7') + "x\n", "777...\" is not a finite f64"},
      {head + "2 2 1\n1 1 1.5\n" + std::string(100, '\0'), "line 4: follows the last of 1"},
      {"%%MatrixMarket matrix coordinate unsigned-integer general\n2 2 1\n1 1 -1\n",
       "line 3: value \"-1\" is not a finite u64"},
      {"%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 9223372036854775808\n",
       "is not a finite i64, but one of u64: unsigned-integer in line 1, or --dtype u64"},
      {"%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 1.5\n",
       "line 3: value \"1.5\" is not a finite i64"},
      {"%%MatrixMarket matrix array real general\n2 1\n1 2\n", "\"1 2\" is not one value"},
      {"%%MatrixMarket matrix array real general\n2 1\n1\n2\n% c\n3\n",
       "line 6: follows the last of 2 values"},
      {head + std::string(70'000, '1') + "\n", "line 2: is longer than 65536 bytes"},
  };
  for (const Case& c : cases) {
    EXPECT_TRUE(HasError(ReadError(c.text), "MALFORMED_FILE", c.message)) << c.text.substr(0, 200);
  }
}

TEST_F(MatrixMarketTest, BelievesNoCountThatTheFileCannotHold) {
  EXPECT_TRUE(HasError(
      ReadError("%%MatrixMarket matrix coordinate real general\n9 9 1000000000000\n1 1 1\n"),
      "MALFORMED_FILE", "1000000000000 entries are stated, but the file has only"));
  EXPECT_TRUE(HasError(ReadError("%%MatrixMarket matrix array real general\n"
                                 "9223372036854775807 9223372036854775807\n1\n"),
                       "MALFORMED_FILE", "entries are stated"));
  EXPECT_TRUE(HasError(ReadError("%%MatrixMarket matrix coordinate real general\n"
                                 "9223372036854775807 9223372036854775807 1\n1 1 1\n"),
                       "MALFORMED_FILE", "line 2"));
}

TEST_F(MatrixMarketTest, NeverCrashesOnAFlippedFile) {
  const std::string good =
      "%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 2 5\n3 1 7.25\n";
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = good;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      const absl::StatusOr<Tensor> tensor = Read(flipped);
      if (!tensor.ok()) continue;
      EXPECT_EQ(tensor->values.size(), tensor->indices.size() * sizeof(double));
    }
  }
}

}  // namespace
}  // namespace sparseagg::client

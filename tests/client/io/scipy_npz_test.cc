// scipy_npz.cc: archives of scipy.sparse.save_npz().
#include <cmath>
#include <cstdint>

#include "client/io/npz.h"
#include "client/io/tensor_file.h"
#include "tests/client/io/archive.h"
#include "tests/client/support.h"

namespace sparseagg::client {
namespace {

using sparseagg::testing::HasError;
using sparseagg::testing::ValuesOf;

class ScipyNpzTest : public sparseagg::testing::ArchiveTest {
 protected:
  // The members of one scipy matrix, csr: [[0, 1.5, 0], [2.5, 0, 3.5]].
  std::vector<ZipMember> Csr() {
    return {Text("format", "csr"), Array<int64_t>("shape", "<i8", {2}, {2, 3}),
            Array<float>("data", "<f4", {3}, {1.5f, 2.5f, 3.5f}),
            Array<int32_t>("indices", "<i4", {3}, {1, 0, 2}),
            Array<int32_t>("indptr", "<i4", {3}, {0, 1, 3})};
  }
  // Of scipy.sparse.bsr: 4 x 6 with two blocks of 2 x 3, the first in the first row of blocks and
  // the second column of them.
  std::vector<ZipMember> Bsr() {
    return {Text("format", "bsr"), Array<int64_t>("shape", "<i8", {2}, {4, 6}),
            Array<double>("data", "<f8", {2, 2, 3}, {1, 2, 3, 4, 0, 6, 7, 8, 9, 10, 11, 12}),
            Array<int32_t>("indices", "<i4", {2}, {1, 0}),
            Array<int32_t>("indptr", "<i4", {3}, {0, 1, 2})};
  }
  // Of scipy.sparse.dia: 3 x 4 with diagonals at -1 and 2; what is outside of the matrix is 9.
  std::vector<ZipMember> Dia() {
    return {Text("format", "dia"), Array<int64_t>("shape", "<i8", {2}, {3, 4}),
            Array<double>("data", "<f8", {2, 4}, {1, 2, 9, 9, 9, 9, 3, 4}),
            Array<int32_t>("offsets", "<i4", {2}, {-1, 2})};
  }
};

TEST_F(ScipyNpzTest, ReadsCompressedRowsAndColumns) {
  std::vector<ZipMember> members = Csr();
  Tensor csr = ReadOne(members);
  EXPECT_EQ(csr.indices, (std::vector<uint64_t>{1, 3, 5}));
  EXPECT_EQ(ValuesOf<float>(csr), (std::vector<float>{1.5f, 2.5f, 3.5f}));
  members[0] = Text("format", "csc");
  members[1] = Array<int64_t>("shape", "<i8", {2}, {3, 2});
  EXPECT_EQ(ReadOne(members).indices, (std::vector<uint64_t>{2, 1, 5}));
}

TEST_F(ScipyNpzTest, ReadsCoordinatesOfNewerSciPy) {
  const Tensor tensor = ReadOne({Text("format", "coo"), Array<int64_t>("shape", "<i8", {2}, {2, 3}),
                                 Array<double>("data", "<f8", {2}, {1, 2}),
                                 Array<int64_t>("coords", "<i8", {2, 2}, {0, 1, 2, 0})});
  EXPECT_EQ(tensor.indices, (std::vector<uint64_t>{2, 3}));
}

TEST_F(ScipyNpzTest, RefusesTensorsBesideAMatrixOfSciPy) {
  auto members = Csr();
  members.push_back(Array<char>("_is_array", "|S1", {}, {'1'}));
  EXPECT_EQ(ReadOne(members).nnz(), 3u);
  members.push_back(Array<float>("emb", "<f4", {2}, {1, 2}));
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "member emb.npy: is not part of"));
}

TEST_F(ScipyNpzTest, RefusesCoordinatesThatStandTheOtherWayRound) {
  EXPECT_TRUE(
      HasError(ReadError({Text("format", "coo"), Array<int64_t>("shape", "<i8", {2}, {5, 5}),
                          Array<double>("data", "<f8", {3}, {1, 2, 3}),
                          Array<int64_t>("coords", "<i8", {3, 2}, {0, 1, 2, 3, 4, 4})}),
               "MALFORMED_FILE", "coords.npy: is not of shape [2, nnz]"));
}

TEST_F(ScipyNpzTest, NamesTheMemberThatIsWrong) {
  auto members = Csr();
  members[4] = Array<int32_t>("indptr", "<i4", {3}, {0, 5, 3});
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE",
                       "indptr.npy: has 5 at position 1, which is not within 0 to 3"));
  members[4] = Array<int64_t>("indptr", "<i8", {3}, {0, int64_t{1} << 50, 3});
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "is not within 0 to 3"));
  members[4] = Array<int32_t>("indptr", "<i4", {3}, {0, -1, 3});
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE",
                       "indptr.npy: has -1 at [1], which is negative"));
  members[4] = Array<int32_t>("indptr", "<i4", {2}, {0, 3});
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "indptr.npy"));
  members = Csr();
  members[3] = Array<int32_t>("indices", "<i4", {3}, {1, 0, 3});
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "entry 2: index 3 of dimension 1"));
  members = Csr();
  members[0] = Text("format", "lil");
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE",
                       "format.npy: \"lil\" of 2 dimensions is not coo, or csr, csc, bsr or dia"));
  members = Csr();
  members[2] = Array<float>("data", "<f4", {2}, {1.5f, 2.5f});
  EXPECT_TRUE(
      HasError(ReadError(members), "MALFORMED_FILE", "data.npy: is of shape [2] instead of [3]"));
  members = Csr();
  members.pop_back();
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "member indptr.npy: is missing"));
}

TEST_F(ScipyNpzTest, LeavesOutWhatIsBehindTheLastRow) {
  std::vector<ZipMember> members = Csr();
  members[2] = Array<float>("data", "<f4", {5}, {1.5f, 2.5f, 3.5f, 9, 9});
  members[3] = Array<int32_t>("indices", "<i4", {5}, {1, 0, 2, 77, 77});
  const Tensor tensor = ReadOne(members);
  EXPECT_EQ(tensor.indices, (std::vector<uint64_t>{1, 3, 5}));
  EXPECT_EQ(ValuesOf<float>(tensor), (std::vector<float>{1.5f, 2.5f, 3.5f}));
  members = Bsr();
  members[4] = Array<int32_t>("indptr", "<i4", {3}, {0, 1, 1});
  EXPECT_EQ(ValuesOf<double>(ReadOne(members)), (std::vector<double>{1, 2, 3, 4, 0, 6}));
}

TEST_F(ScipyNpzTest, ReadsArraysOfOneDimension) {
  const Tensor coords = ReadOne({Text("format", "coo"), Array<int64_t>("shape", "<i8", {1}, {5}),
                                 Array<double>("data", "<f8", {2}, {1, 2}),
                                 Array<int64_t>("coords", "<i8", {1, 2}, {1, 3})});
  EXPECT_EQ(coords.dense_shape, std::vector<int64_t>{5});
  EXPECT_EQ(coords.sparse_dim, 1u);
  EXPECT_EQ(coords.indices, (std::vector<uint64_t>{1, 3}));
  std::vector<ZipMember> rows = {Text("format", "coo"), Array<int64_t>("shape", "<i8", {1}, {5}),
                                 Array<double>("data", "<f8", {2}, {1, 2}),
                                 Array<int32_t>("row", "<i4", {2}, {0, 0}),
                                 Array<int32_t>("col", "<i4", {2}, {1, 3})};
  EXPECT_EQ(ReadOne(rows).indices, (std::vector<uint64_t>{1, 3})) << "SciPy 1.13 to 1.16";
  rows[3] = Array<int32_t>("row", "<i4", {2}, {0, 1});
  EXPECT_TRUE(HasError(ReadError(rows), "MALFORMED_FILE", "row.npy: is not 0 everywhere"));
  const Tensor csr = ReadOne({Text("format", "csr"), Array<int64_t>("shape", "<i8", {1}, {5}),
                              Array<double>("data", "<f8", {2}, {1, 2}),
                              Array<int32_t>("indices", "<i4", {2}, {3, 0}),
                              Array<int32_t>("indptr", "<i4", {2}, {0, 2})});
  EXPECT_EQ(csr.dense_shape, std::vector<int64_t>{5});
  EXPECT_EQ(csr.indices, (std::vector<uint64_t>{3, 0}));
}

TEST_F(ScipyNpzTest, ReadsCoordinatesOfManyDimensions) {
  std::vector<ZipMember> members = {Text("format", "coo"),
                                    Array<int64_t>("shape", "<i8", {3}, {2, 3, 4}),
                                    Array<double>("data", "<f8", {2}, {1, 2}),
                                    Array<int64_t>("coords", "<i8", {3, 2}, {0, 1, 2, 0, 3, 1})};
  const Tensor tensor = ReadOne(members);
  EXPECT_EQ(tensor.dense_shape, (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(tensor.sparse_dim, 3u);
  EXPECT_EQ(tensor.indices, (std::vector<uint64_t>{11, 13}));
  members[3] = Array<int64_t>("coords", "<i8", {3, 2}, {0, 1, 2, 3, 3, 1});
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "entry 1: index 3 of dimension 1"));
  members.pop_back();
  members.push_back(Array<int32_t>("row", "<i4", {2}, {0, 1}));
  members.push_back(Array<int32_t>("col", "<i4", {2}, {1, 3}));
  EXPECT_TRUE(HasError(
      ReadError(members), "MALFORMED_FILE",
      "shape.npy: has 3 lengths, but row and col have only 2 dimensions: SciPy before 1.17"));
}

TEST_F(ScipyNpzTest, ReadsBlocks) {
  const Tensor tensor = ReadOne(Bsr());
  EXPECT_EQ(tensor.dense_shape, (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(tensor.indices, (std::vector<uint64_t>{3, 4, 5, 9, 10, 11, 12, 13, 14, 18, 19, 20}));
  EXPECT_EQ(ValuesOf<double>(tensor), (std::vector<double>{1, 2, 3, 4, 0, 6, 7, 8, 9, 10, 11, 12}));
}

TEST_F(ScipyNpzTest, RefusesBlocksThatAreNotOfTheMatrix) {
  auto members = Bsr();
  members[1] = Array<int64_t>("shape", "<i8", {2}, {4, 7});
  EXPECT_TRUE(
      HasError(ReadError(members), "MALFORMED_FILE", "no blocks that divide a matrix of 4"));
  members = Bsr();
  members[3] = Array<int32_t>("indices", "<i4", {2}, {1, 2});
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "indices.npy: has 2 at position 1"));
  members = Bsr();
  members[3] = Array<int64_t>("indices", "<i8", {2}, {1, INT64_MAX});
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "there are 2 columns of blocks"));
  members = Bsr();
  members[2] = Array<double>("data", "<f8", {2, 0, 3}, {});
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "of shape [2, 0, 3] has no blocks"));
  members = Bsr();
  members[2] = Array<double>("data", "<f8", {2}, {1, 2});
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "of shape [2] has no blocks"));
  members = Bsr();
  members[4] = Array<int32_t>("indptr", "<i4", {5}, {0, 1, 2, 2, 2});
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "indptr.npy: is not 2 + 1 positions"));
}

TEST_F(ScipyNpzTest, ReadsDiagonalsAsSciPyDoes) {
  const Tensor tensor = ReadOne(Dia());
  EXPECT_EQ(tensor.indices, (std::vector<uint64_t>{4, 9, 2, 7}));
  EXPECT_EQ(ValuesOf<double>(tensor), (std::vector<double>{1, 2, 3, 4}));
  auto members = Dia();
  members[2] = Array<double>("data", "<f8", {2, 2}, {1, -0.0, 9, 9});
  EXPECT_EQ(ReadOne(members).indices, std::vector<uint64_t>{4}) << "shorter, and with a zero";
  members[3] = Array<int64_t>("offsets", "<i8", {2}, {INT64_MIN, INT64_MAX});
  EXPECT_EQ(ReadOne(members).nnz(), 0u) << "outside of the matrix";
}

TEST_F(ScipyNpzTest, RefusesDiagonalsThatContradictThemselves) {
  auto members = Dia();
  members[3] = Array<int32_t>("offsets", "<i4", {2}, {1, 1});
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "offsets.npy: has 1 twice"));
  members[3] = Array<int32_t>("offsets", "<i4", {3}, {0, 1, 2});
  EXPECT_TRUE(
      HasError(ReadError(members), "MALFORMED_FILE", "is of shape [2, 4] instead of [3, 4]"));
  members[2] = Array<double>("data", "<f8", {2}, {1, 2});
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "data.npy: is of shape [2]"));
}

TEST_F(ScipyNpzTest, ReadsEveryTypeOfNumber) {
  const auto read = [&](std::string_view descr, const std::vector<uint8_t>& bytes) {
    auto members = Csr();
    members[2] = Array<uint8_t>("data", descr, {3}, bytes);
    return ReadOne(members);
  };
  const Tensor bools = read("|b1", {1, 0, 1});
  EXPECT_EQ(bools.layout.value_type, ValueType::kU32);
  EXPECT_EQ(ValuesOf<uint32_t>(bools), (std::vector<uint32_t>{1, 0, 1}));
  const Tensor small = read("|i1", {1, 255, 128});
  EXPECT_EQ(small.layout.value_type, ValueType::kI32);
  EXPECT_EQ(ValuesOf<int32_t>(small), (std::vector<int32_t>{1, -1, -128}));
  const Tensor big = read(">u2", {1, 0, 0, 255, 255, 255});
  EXPECT_EQ(ValuesOf<uint32_t>(big), (std::vector<uint32_t>{256, 255, 65535}));
  auto members = Csr();
  members[2] = Array<uint8_t>("data", "<c8", {3}, std::vector<uint8_t>(24));
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE",
                       "data.npy: type \"<c8\" is complex; save .real and .imag"));
}

TEST_F(ScipyNpzTest, CountsWhatBlocksBecomeInMemory) {
  ReadOptions options;
  options.value_type = ValueType::kF64;
  options.bytes_max = 5000;
  const std::vector<ZipMember> members = {
      Text("format", "bsr"), Array<int64_t>("shape", "<i8", {2}, {20, 20}),
      Array<uint8_t>("data", "|u1", {1, 20, 20}, std::vector<uint8_t>(400)),
      Array<int32_t>("indices", "<i4", {1}, {0}), Array<int32_t>("indptr", "<i4", {2}, {0, 1})};
  EXPECT_TRUE(HasError(ReadTensors(Archive(members), options).status(), "FILE_TOO_LARGE",
                       "member data.npy: 400 entries of 16 bytes"));
}

}  // namespace
}  // namespace sparseagg::client

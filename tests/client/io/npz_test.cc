#include "client/io/npz.h"

#include <cstdint>

#include "client/io/tensor_file.h"
#include "tests/client/io/archive.h"
#include "tests/client/support.h"

namespace sparseagg::client {
namespace {

using sparseagg::testing::HasError;
using sparseagg::testing::MakeTensor;
using sparseagg::testing::SameTensor;
using sparseagg::testing::ValuesOf;

class NpzTest : public sparseagg::testing::ArchiveTest {
 protected:
  void ExpectRoundTrip(const std::vector<Tensor>& tensors) {
    ASSERT_TRUE(WriteTensors(Path("out.npz"), ViewsOf(tensors)).ok());
    const std::vector<Tensor> read = ReadTensors(Path("out.npz")).value();
    ASSERT_EQ(read.size(), tensors.size());
    for (size_t i = 0; i < read.size(); ++i) EXPECT_TRUE(SameTensor(read[i], tensors[i])) << i;
  }

  // The members of one scipy matrix, csr: [[0, 1.5, 0], [2.5, 0, 3.5]].
  std::vector<ZipMember> Csr() {
    return {Array<char>("format", "|S3", {}, {'c', 's', 'r'}),
            Array<int64_t>("shape", "<i8", {2}, {2, 3}),
            Array<float>("data", "<f4", {3}, {1.5f, 2.5f, 3.5f}),
            Array<int32_t>("indices", "<i4", {3}, {1, 0, 2}),
            Array<int32_t>("indptr", "<i4", {3}, {0, 1, 3})};
  }
  std::vector<ZipMember> Hybrid() {
    return {Array<int64_t>("indices", "<i8", {2, 1}, {7, 2}),
            Array<float>("values", "<f4", {2, 2}, {1, 2, 3, 4}),
            Array<int64_t>("dense_shape", "<i8", {2}, {10, 2})};
  }
};

TEST_F(NpzTest, KeepsEveryValueType) {
  for (const ValueType type : kAllValueTypes) {
    std::vector<uint8_t> bytes(2 * SizeOf(type));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i + 1);
    Tensor matrix = MakeTensor<uint8_t>({"matrix", type, {3, 4}, 2}, {1, 11}, bytes);
    matrix.name.clear();
    ExpectRoundTrip({matrix});
  }
}

TEST_F(NpzTest, KeepsSeveralTensorsOfAllKinds) {
  ExpectRoundTrip({
      MakeTensor<float>({"layer/emb", ValueType::kF32, {10, 2}, 1}, {7, 2}, {1, 2, 3, 4}),
      MakeTensor<uint16_t>({"half", ValueType::kBF16, {10}, 1}, {3}, {0x3F80}),
      MakeTensor<int64_t>({"cube", ValueType::kI64, {2, 3, 4}, 3}, {23, 0}, {-5, 5}),
      MakeTensor<double>({"bias", ValueType::kF64, {2, 2}, 0}, {0}, {1, 2, 3, 4}),
      MakeTensor<float>({"empty", ValueType::kF32, {10, 2}, 1}, {}, {}),
  });
}

TEST_F(NpzTest, KeepsAnEmptyMatrix) {
  Tensor matrix = MakeTensor<float>({"matrix", ValueType::kF32, {3, 4}, 2}, {}, {});
  matrix.name.clear();
  ExpectRoundTrip({matrix});
}

TEST_F(NpzTest, WritesTheSameBytesForTheSameTensors) {
  const Tensor tensor = MakeTensor<float>({"a", ValueType::kF32, {10, 2}, 1}, {7}, {1, 2});
  ASSERT_TRUE(WriteTensors(Path("1.npz"), ViewsOf({tensor})).ok());
  ASSERT_TRUE(WriteTensors(Path("2.npz"), ViewsOf({tensor})).ok());
  EXPECT_EQ(ReadFile(Path("1.npz")), ReadFile(Path("2.npz")));
}

TEST_F(NpzTest, ReadsPlainArraysAsDenseTensors) {
  const Tensor tensor = ReadOne({Array<float>("w", "<f4", {2, 2}, {1, 2, 3, 4})});
  EXPECT_EQ(tensor.name, "w");
  EXPECT_EQ(tensor.sparse_dim, 0u);
  EXPECT_EQ(tensor.indices, (std::vector<uint64_t>{0}));
}

TEST_F(NpzTest, ReadsOneNumberAsAListOfOne) {
  const Tensor tensor = ReadOne({Array<float>("s", "<f4", {}, {2.5f})});
  EXPECT_EQ(tensor.dense_shape, std::vector<int64_t>{1});
  EXPECT_EQ(tensor.sparse_dim, 0u);
  EXPECT_EQ(ValuesOf<float>(tensor), std::vector<float>{2.5f});
}

TEST_F(NpzTest, TakesIndicesOfOneDimension) {
  std::vector<ZipMember> members = Hybrid();
  members[0] = Array<int64_t>("indices", "<i8", {2}, {7, 2});
  const Tensor tensor = ReadOne(members);
  EXPECT_EQ(tensor.sparse_dim, 1u);
  EXPECT_EQ(tensor.indices, (std::vector<uint64_t>{7, 2}));
}

TEST_F(NpzTest, ReadsSmallIntegersAsThoseOfFourBytes) {
  const Tensor bools = ReadOne({Array<uint8_t>("seen", "|b1", {3}, {1, 0, 1})});
  EXPECT_EQ(bools.layout.value_type, ValueType::kU32);
  EXPECT_EQ(ValuesOf<uint32_t>(bools), (std::vector<uint32_t>{1, 0, 1}));
  std::vector<ZipMember> members = Hybrid();
  members[0] = Array<uint8_t>("indices", "|u1", {2, 1}, {7, 2});
  members[1] = Array<int16_t>("values", "<i2", {2, 2}, {1, -2, 3, -32768});
  members[2] = Array<int16_t>("dense_shape", "<i2", {2}, {10, 2});
  const Tensor rows = ReadOne(members);
  EXPECT_EQ(rows.layout.value_type, ValueType::kI32);
  EXPECT_EQ(rows.indices, (std::vector<uint64_t>{7, 2}));
  EXPECT_EQ(ValuesOf<int32_t>(rows), (std::vector<int32_t>{1, -2, 3, -32768}));
}

TEST_F(NpzTest, ReadsBfloat16OfMlDtypes) {
  std::vector<ZipMember> members = Hybrid();
  members[1] = Array<uint16_t>("values", "|V2", {2, 2}, {0x3F80, 0x4000, 0xBF80, 0});
  const Tensor tensor = ReadOne(members);
  EXPECT_EQ(tensor.layout.value_type, ValueType::kBF16);
  EXPECT_EQ(ValuesOf<uint16_t>(tensor), (std::vector<uint16_t>{0x3F80, 0x4000, 0xBF80, 0}));
  members.push_back(Text("value_type", "bf16"));
  EXPECT_TRUE(SameTensor(ReadOne(members), tensor)) << "said twice";
}

TEST_F(NpzTest, TakesAnEmptyListOfIndicesOfAnyNumber) {
  const Tensor tensor =
      ReadOne({Array<double>("indices", "<f8", {0}, {}), Array<float>("values", "<f4", {0, 2}, {}),
               Array<int64_t>("dense_shape", "<i8", {2}, {10, 2})});
  EXPECT_EQ(tensor.nnz(), 0u);
  EXPECT_EQ(tensor.dense_shape, (std::vector<int64_t>{10, 2}));
}

TEST_F(NpzTest, ReadsParametersThatHaveNamesOfALayout) {
  const std::vector<Tensor> values =
      ReadTensors(Archive({Array<float>("values", "<f4", {3}, {1, 2, 3}),
                           Array<float>("bias", "<f4", {1}, {4})}))
          .value();
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[0].name, "values");
  EXPECT_EQ(values[1].name, "bias");
  const std::vector<Tensor> scipy = ReadTensors(Archive({Array<float>("format", "<f4", {2}, {1, 2}),
                                                         Array<float>("shape", "<f4", {1}, {3}),
                                                         Array<float>("data", "<f4", {1}, {4})}))
                                        .value();
  ASSERT_EQ(scipy.size(), 3u);
  EXPECT_EQ(scipy[0].name, "format");
  EXPECT_EQ(ValuesOf<float>(scipy[0]), (std::vector<float>{1, 2}));
}

TEST_F(NpzTest, TakesMembersInCapitalsAndFolders) {
  const ZipMember array = Array<float>("w", "<f4", {2}, {1, 2});
  EXPECT_EQ(ReadOne({{"W.NPY", array.head, ""}}).name, "W");
  EXPECT_EQ(ReadOne({{"layer/", "", ""}, {"layer/w.npy", array.head, ""}}).name, "layer/w");
  EXPECT_TRUE(HasError(ReadError({{"w.NPY", array.head, ""}, array}), "MALFORMED_FILE",
                       "member w.npy: appears twice"));
  EXPECT_TRUE(HasError(ReadError({{"w.txt", "text", ""}}), "MALFORMED_FILE", "not a .npy array"));
}

TEST_F(NpzTest, ConvertsOnRequest) {
  ReadOptions options;
  options.value_type = ValueType::kF64;
  const std::vector<Tensor> tensors = ReadTensors(Archive(Csr()), options).value();
  EXPECT_EQ(ValuesOf<double>(tensors[0]), (std::vector<double>{1.5, 2.5, 3.5}));
}

TEST_F(NpzTest, RefusesTensorsThatContradictThemselves) {
  auto members = Hybrid();
  members[0] = Array<int64_t>("indices", "<i8", {2, 1}, {10, 2});
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "entry 0: index 10"));
  members = Hybrid();
  members[1] = Array<float>("values", "<f4", {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "not one row of 2 values"));
  members = Hybrid();
  members[2] = Array<int64_t>("dense_shape", "<i8", {2}, {int64_t{1} << 62, int64_t{1} << 40});
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "4611686018427387904"));
  members = Hybrid();
  members.push_back(Array<char>("value_type", "|S4", {}, {'b', 'f', '1', '6'}));
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "\"bf16\" does not fit"));
  members = Hybrid();
  members.push_back(Array<float>("w", "<f4", {1}, {1}));
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "without a name"));
  members = Hybrid();
  members[1] = Array<char>("values", "|S1", {2, 2}, {'a', 'b', 'c', 'd'});
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "'|S1' is not a number"));
  members = Hybrid();
  members.push_back(Array<char>("value_type", "|S3", {}, {'f', '6', '4'}));
  EXPECT_TRUE(HasError(ReadError(members), "MALFORMED_FILE", "\"f64\" does not fit"));
}

TEST_F(NpzTest, RefusesTwoTensorsOfOneNameInEitherOrder) {
  const ZipMember plain = Array<float>("a", "<f4", {3}, {1, 2, 3});
  const ZipMember values = Array<float>("a/values", "<f4", {3}, {4, 5, 6});
  EXPECT_TRUE(HasError(ReadError({values, plain}), "MALFORMED_FILE",
                       "member a.npy: and a/values.npy have the same name"));
  EXPECT_TRUE(HasError(ReadError({plain, values}), "MALFORMED_FILE",
                       "member a/values.npy: and a.npy have the same name"));
  EXPECT_TRUE(HasError(ReadError({plain, Array<int64_t>("a/indices", "<i8", {3}, {0, 1, 2}),
                                  Array<int64_t>("a/dense_shape", "<i8", {1}, {9})}),
                       "MALFORMED_FILE", "member a/indices.npy: and a.npy have the same name"));
}

TEST_F(NpzTest, RefusesMoreThanTheLimitBeforeReading) {
  ReadOptions options;
  options.bytes_max = 200;
  EXPECT_TRUE(HasError(ReadTensors(Archive(Csr()), options).status(), "FILE_TOO_LARGE",
                       "all members together may have 200"));
}

TEST_F(NpzTest, CountsWhatTensorsBecomeInMemory) {
  // 200 bytes of values in the file: 1600 as f64, and as many of indices.
  const std::vector<ZipMember> members = {
      Array<uint8_t>("indices", "|u1", {200}, std::vector<uint8_t>(200)),
      Array<uint8_t>("values", "|u1", {200}, std::vector<uint8_t>(200)),
      Array<int64_t>("dense_shape", "<i8", {1}, {10})};
  ReadOptions options;
  options.value_type = ValueType::kF64;
  options.bytes_max = 3200;
  EXPECT_TRUE(ReadTensors(Archive(members), options).ok());
  options.bytes_max = 3199;
  EXPECT_TRUE(HasError(ReadTensors(Archive(members), options).status(), "FILE_TOO_LARGE",
                       "member values.npy: 200 entries of 16 bytes"));
}

TEST_F(NpzTest, SaysWhatIsWrongWithTheFileItself) {
  EXPECT_TRUE(HasError(ReadTensors(Path("none.npz")).status(), "FILE_UNUSABLE", "none.npz"));
  WriteFile("junk.npz", "this is not an archive");
  EXPECT_TRUE(HasError(ReadTensors(Path("junk.npz")).status(), "MALFORMED_FILE", "zip"));
  EXPECT_TRUE(
      HasError(ReadTensors(Path("a.txt")).status(), "UNKNOWN_FORMAT", "must end with .npz, .mtx"));
}

TEST_F(NpzTest, NeverCrashesOnATruncatedOrFlippedArchive) {
  const std::string good = ReadFile(Archive(Hybrid()));
  const Tensor tensor = ReadTensors(Path("in.npz")).value().at(0);
  for (size_t n = 0; n < good.size(); n += 3) {
    EXPECT_FALSE(ReadTensors(WriteFile("cut.npz", good.substr(0, n))).ok()) << n;
  }
  size_t refused = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    std::string flipped = good;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x20);
    const auto read = ReadTensors(WriteFile("flipped.npz", flipped));
    // Checksums guard the arrays; a flip in a timestamp or an attribute does no harm.
    if (!read.ok()) ++refused;
    if (read.ok() && read->size() == 1 && read->at(0).name.empty()) {
      EXPECT_EQ(read->at(0).values, tensor.values) << i;
    }
  }
  EXPECT_GT(refused, good.size() / 2);
}

TEST_F(NpzTest, LeavesNoFileWhenItCannotWrite) {
  const Tensor tensor = MakeTensor<float>({"a", ValueType::kF32, {10, 2}, 1}, {7}, {1, 2});
  EXPECT_TRUE(HasError(WriteTensors(Path("no/folder.npz"), ViewsOf({tensor})), "FILE_UNUSABLE",
                       "folder.npz"));
  EXPECT_TRUE(HasError(WriteTensors(Path("two.npz"), ViewsOf({tensor, tensor})), "BAD_TENSOR_NAME",
                       "\"a\""));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace sparseagg::client

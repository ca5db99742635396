#include "client/io/npy.h"

#include "tests/client/support.h"

namespace sparseagg::client {
namespace {

using sparseagg::testing::HasError;

// A version 1 file with this dictionary and these elements.
std::string Npy(const std::string& dictionary, const std::string& elements) {
  std::string file("\x93NUMPY\x01\x00", 8);
  file.push_back(static_cast<char>(dictionary.size() & 0xFF));
  file.push_back(static_cast<char>(dictionary.size() >> 8));
  return file + dictionary + elements;
}

std::string Dictionary(const std::string& descr, bool fortran_order, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran_order ? "True" : "False") +
         ", 'shape': " + shape + ", }\n";
}

absl::Status ErrorOf(const std::string& file) { return ParseNpy(file, "f.npz", "m").status(); }

TEST(NpyTest, ReadsWhatItWrites) {
  const int64_t shape[] = {2, 3};
  const std::string elements(2 * 3 * 4, 'x');
  const NpyArray array = ParseNpy(NpyHeader("<f4", shape) + elements, "f", "").value();
  EXPECT_EQ(array.dtype(), "<f4");
  EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(array.data(), elements);
  EXPECT_EQ(array.data_begin % 64, 0u);
}

TEST(NpyTest, WritesTuplesAsNumPyDoes) {
  const int64_t one[] = {7};
  EXPECT_THAT(NpyHeader("<i8", {}), ::testing::HasSubstr("'shape': (), }"));
  EXPECT_THAT(NpyHeader("<i8", one), ::testing::HasSubstr("'shape': (7,), }"));
}

TEST(NpyTest, TurnsFortranOrderRound) {
  // Columns first: [[1, 2, 3], [4, 5, 6]] is stored as 1 4 2 5 3 6.
  const NpyArray array =
      ParseNpy(Npy(Dictionary("|u1", true, "(2, 3)"), "\1\4\2\5\3\6"), "f", "").value();
  EXPECT_EQ(array.data(), "\1\2\3\4\5\6");
}

TEST(NpyTest, TurnsThreeDimensionsRound) {
  // Element (i, j, k) of shape (2, 2, 2) holds 4i + 2j + k; stored with i fastest.
  const std::string stored({0, 4, 2, 6, 1, 5, 3, 7});
  const NpyArray array =
      ParseNpy(Npy(Dictionary("|u1", true, "(2, 2, 2)"), stored), "f", "").value();
  EXPECT_EQ(array.data(), std::string({0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(NpyTest, ReadsTextOfBothKinds) {
  EXPECT_EQ(ToText(ParseNpy(Npy(Dictionary("|S3", false, "()"), "coo"), "f", "").value()), "coo");
  const std::string unicode("c\0\0\0s\0\0\0r\0\0\0", 12);
  EXPECT_EQ(ToText(ParseNpy(Npy(Dictionary("<U3", false, "()"), unicode), "f", "").value()), "csr");
}

TEST(NpyTest, RefusesHeadersThatLie) {
  EXPECT_TRUE(HasError(ErrorOf("junk"), "MALFORMED_FILE", "f.npz: m: is not a NumPy array"));
  EXPECT_TRUE(HasError(ErrorOf(Npy(Dictionary("<f4", false, "(3,)"), "1234")), "MALFORMED_FILE",
                       "the shape needs 12 bytes, there are 4"));
  EXPECT_TRUE(HasError(
      ErrorOf(Npy(Dictionary("<f4", false, "(4611686018427387904, 4611686018427387904)"), "")),
      "MALFORMED_FILE", "2^63 or more"));
  EXPECT_TRUE(HasError(ErrorOf(Npy(Dictionary("<f4", false, "(-1,)"), "")), "MALFORMED_FILE",
                       "'shape' is not a tuple"));
  EXPECT_TRUE(HasError(ErrorOf(std::string("\x93NUMPY\x01\x00\xff\xff{", 11)), "MALFORMED_FILE",
                       "states a header of 65535 bytes"));
}

TEST(NpyTest, SwapsBigEndianElements) {
  const std::string bytes("\x3F\xC0\x00\x00\xC0\x00\x00\x00", 8);
  const NpyArray array = ParseNpy(Npy(Dictionary(">f4", false, "(2,)"), bytes), "f", "").value();
  EXPECT_EQ(array.dtype(), "<f4");
  EXPECT_EQ(array.data(), std::string("\x00\x00\xC0\x3F\x00\x00\x00\xC0", 8));
  const NpyArray turned =
      ParseNpy(Npy(Dictionary(">u2", true, "(1, 2)"), "\1\2\3\4"), "f", "").value();
  EXPECT_EQ(turned.data(), "\2\1\4\3");
  const std::string unicode("\0\0\0c\0\0\0s\0\0\0r", 12);
  EXPECT_EQ(ToText(ParseNpy(Npy(Dictionary(">U3", false, "()"), unicode), "f", "").value()), "csr");
}

TEST(NpyTest, ReadsTheMachinesOwnOrderAndLengthsOfPython2) {
  EXPECT_EQ(ParseNpy(Npy(Dictionary("=f4", false, "(1,)"), "1234"), "f", "").value().dtype(),
            "<f4");
  EXPECT_EQ(ParseNpy(Npy(Dictionary("<f4", false, "(1L, 1L)"), "1234"), "f", "").value().shape,
            (std::vector<int64_t>{1, 1}));
  EXPECT_FALSE(ErrorOf(Npy(Dictionary("<f4", false, "(np.int64(1),)"), "1234")).ok());
}

TEST(NpyTest, KnowsAnArrayFromItsBeginning) {
  const int64_t shape[] = {2, 3};
  const std::string header = NpyHeader(">f4", shape);
  const std::optional<NpyArray> array = ParseNpyHead(header, header.size() + 24);
  ASSERT_TRUE(array.has_value());
  EXPECT_EQ(array->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(array->item_bytes, 4u);
  EXPECT_EQ(array->data_begin, header.size());
  EXPECT_FALSE(ParseNpyHead(header.substr(0, header.size() - 1), header.size() + 24).has_value());
  EXPECT_FALSE(ParseNpyHead("junk", 1000).has_value());
}

TEST(NpyTest, RefusesElementsThatAreNeitherNumbersNorText) {
  for (const char* descr :
       {"|O", "<c8", "<f16", "<M8", "", "<f", "<f0", "<f4x", "|f4", "|V3", ">V2"}) {
    EXPECT_TRUE(
        HasError(ErrorOf(Npy(Dictionary(descr, false, "()"), "")), "MALFORMED_FILE", "type"))
        << descr;
  }
}

TEST(NpyTest, NeverCrashesOnATruncatedOrFlippedFile) {
  const int64_t shape[] = {2};
  const std::string file = NpyHeader("<f4", shape) + "12345678";
  for (size_t n = 0; n < file.size(); ++n) {
    EXPECT_FALSE(ErrorOf(file.substr(0, n)).ok()) << n;
  }
  for (size_t i = 0; i < file.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = file;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      const absl::StatusOr<NpyArray> array = ParseNpy(flipped, "f", "");
      if (!array.ok()) continue;
      EXPECT_EQ(array->data_begin + array->size() * array->item_bytes, file.size());
    }
  }
}

TEST(ToValuesTest, WidensSmallIntegersAndBool) {
  struct Case {
    const char* descr;
    std::string elements;
    ValueType type;
    std::vector<int32_t> values;
  };
  const Case cases[] = {
      {"|b1", std::string("\0\1\2", 3), ValueType::kU32, {0, 1, 1}},
      {"|i1", "\x80\x7F\xFF", ValueType::kI32, {-128, 127, -1}},
      {"|u1", "\x80\x7F\xFF", ValueType::kU32, {128, 127, 255}},
      {"<i2", std::string("\x00\x80\xFF\x7F\xFF\xFF", 6), ValueType::kI32, {-32768, 32767, -1}},
      {">u2", std::string("\x80\x00\x7F\xFF\xFF\xFF", 6), ValueType::kU32, {32768, 32767, 65535}},
  };
  for (const Case& c : cases) {
    const NpyArray array =
        ParseNpy(Npy(Dictionary(c.descr, false, "(3,)"), c.elements), "f", "").value();
    EXPECT_EQ(NpyValueType(array), c.type) << c.descr;
    EXPECT_EQ(ToValues(array, c.type), sparseagg::testing::BytesOf(c.values)) << c.descr;
  }
}

TEST(ToValuesTest, TakesTwoBytesWithoutATypeForTheBfloat16OfMlDtypes) {
  for (const char* descr : {"<V2", "|V2"}) {
    const NpyArray array =
        ParseNpy(Npy(Dictionary(descr, false, "(1,)"), "\x80\x3F"), "f", "").value();
    EXPECT_EQ(NpyValueType(array), ValueType::kBF16);
    EXPECT_EQ(ToValues(array, ValueType::kBF16),
              (std::vector<std::byte>{std::byte{0x80}, std::byte{0x3F}}));
  }
}

TEST(ToIntegersTest, ReadsIntegersOfEverySize) {
  const auto read = [](const std::string& descr, const std::string& element) {
    const NpyArray array = ParseNpy(Npy(Dictionary(descr, false, "()"), element), "f", "").value();
    return ToSignedIntegers(array, "f", "").value().at(0);
  };
  EXPECT_EQ(read("|i1", "\xFF"), -1);
  EXPECT_EQ(read("|u1", "\xFF"), 255);
  EXPECT_EQ(read("<i2", "\xFE\xFF"), -2);
  EXPECT_EQ(read(">i2", "\xFF\xFE"), -2);
  EXPECT_EQ(read("<u2", "\xFE\xFF"), 65534);
  EXPECT_EQ(read("<i8", "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"), -1);
  const NpyArray none = ParseNpy(Npy(Dictionary("<f8", false, "(0,)"), ""), "f", "").value();
  EXPECT_TRUE(ToIntegers(none, "f", "").value().empty());
}

TEST(ToIntegersTest, RefusesOtherTypesAndNegativeNumbers) {
  const auto error = [](const std::string& descr, const std::string& element) {
    return ToIntegers(ParseNpy(Npy(Dictionary(descr, false, "()"), element), "f", "").value(), "f",
                      "m")
        .status();
  };
  EXPECT_TRUE(HasError(error("<f4", "1234"), "MALFORMED_FILE", "'<f4' is not one of"));
  EXPECT_TRUE(HasError(error("<i4", "\xff\xff\xff\xff"), "MALFORMED_FILE", "negative"));
  EXPECT_TRUE(HasError(error("<u8", "\xff\xff\xff\xff\xff\xff\xff\xff"), "MALFORMED_FILE", "2^63"));
}

}  // namespace
}  // namespace sparseagg::client

#include "client/io/text_file.h"

#include <string>

#include "tests/client/io/gzip.h"
#include "tests/client/support.h"

namespace sparseagg::client {
namespace {

using sparseagg::testing::Gzip;
using sparseagg::testing::HasError;

constexpr uint64_t kLimit = 1 << 20;

class TextFileTest : public sparseagg::testing::FolderTest {
 protected:
  absl::StatusOr<std::string> Read(const std::string& content, uint64_t limit = kLimit) {
    SPARSEAGG_ASSIGN_OR_RETURN(TextFile file, TextFile::Open(WriteFile("t", content), limit));
    std::string text(file.bytes() + 100, '\0');
    SPARSEAGG_ASSIGN_OR_RETURN(const size_t got, file.Read(text.data(), text.size()));
    EXPECT_EQ(got, file.bytes()) << "the length that was stated";
    text.resize(got);
    return text;
  }
};

TEST_F(TextFileTest, ReadsTextAsItIs) {
  EXPECT_EQ(Read("some text\n").value(), "some text\n");
  EXPECT_EQ(Read("").value(), "");
  EXPECT_EQ(Read("\x1F").value(), "\x1F");
}

TEST_F(TextFileTest, UnpacksGzip) {
  EXPECT_EQ(Read(Gzip("some text\n")).value(), "some text\n");
  EXPECT_EQ(Read(Gzip("")).value(), "");
  std::string large;
  for (int i = 0; i < 100'000; ++i) large += std::to_string(i * 37) + "\n";
  EXPECT_EQ(Read(Gzip(large)).value(), large);
}

TEST_F(TextFileTest, UnpacksMembersOneBehindTheOther) {
  EXPECT_EQ(Read(Gzip("a") + Gzip("") + Gzip("bc")).value(), "abc");
}

TEST_F(TextFileTest, ReadsInPiecesOfAnySize) {
  for (const std::string& content : {std::string("0123456789"), Gzip("0123456789")}) {
    TextFile file = TextFile::Open(WriteFile("t", content), kLimit).value();
    char piece[4];
    std::string text;
    for (size_t got = sizeof(piece); got == sizeof(piece);) {
      got = file.Read(piece, sizeof(piece)).value();
      text.append(piece, got);
    }
    EXPECT_EQ(text, "0123456789");
  }
}

TEST_F(TextFileTest, RefusesWhatUnpacksBeyondTheLimit) {
  // Compresses to about a thousandth of its size.
  const std::string bomb = Gzip(std::string(kLimit + 1, '\n'));
  EXPECT_LT(bomb.size(), 2'000u);
  EXPECT_TRUE(
      HasError(Read(bomb).status(), "FILE_TOO_LARGE", "unpacks to more than 1048576 bytes"));
  EXPECT_EQ(Read(bomb, kLimit + 1).value().size(), kLimit + 1);
  EXPECT_EQ(Read(std::string(100, 'x'), 10).value().size(), 100u) << "not packed: no limit";
}

TEST_F(TextFileTest, RefusesEveryCutAndEveryFlippedBit) {
  const std::string text = "1 1 0.5\n2 2 0.25\n3 3 0.125\n";
  const std::string packed = Gzip(text);
  for (size_t n = 2; n < packed.size(); ++n) {
    EXPECT_TRUE(HasError(Read(packed.substr(0, n)).status(), "MALFORMED_FILE", "ends early")) << n;
  }
  // The header's flags, time and system may change without harm, and so may the bits that fill the
  // last byte of the packed text.
  constexpr size_t kHeaderBytes = 10;
  size_t refused = 0;
  for (size_t i = kHeaderBytes; i < packed.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = packed;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      const absl::StatusOr<std::string> read = Read(flipped);
      EXPECT_EQ(read.value_or(text), text) << i;
      refused += read.ok() ? 0 : 1;
    }
  }
  EXPECT_GE(refused, 8 * (packed.size() - kHeaderBytes) - 7);
}

TEST_F(TextFileTest, RefusesOtherBytesBehindTheEnd) {
  EXPECT_TRUE(HasError(Read(Gzip("text") + "more").status(), "MALFORMED_FILE", "other bytes"));
  EXPECT_TRUE(
      HasError(Read(Gzip("text") + std::string(512, '\0')).status(), "MALFORMED_FILE", "gzip -d"));
}

TEST_F(TextFileTest, SaysWhyAFileCannotBeRead) {
  EXPECT_TRUE(HasError(TextFile::Open(Path("none"), kLimit).status(), "FILE_UNUSABLE", "none"));
  EXPECT_TRUE(HasError(TextFile::Open(Path(""), kLimit).status(), "FILE_UNUSABLE", "regular file"));
}

}  // namespace
}  // namespace sparseagg::client

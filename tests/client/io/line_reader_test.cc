#include "client/io/line_reader.h"

#include <random>
#include <string>
#include <vector>

#include "tests/client/io/gzip.h"
#include "tests/client/support.h"

namespace sparseagg::client {
namespace {

using sparseagg::testing::Gzip;
using sparseagg::testing::HasError;

class LineReaderTest : public sparseagg::testing::FolderTest {
 protected:
  absl::StatusOr<std::vector<std::string>> Read(const std::string& content) {
    SPARSEAGG_ASSIGN_OR_RETURN(LineReader reader, LineReader::Open(WriteFile("t", content)));
    std::vector<std::string> lines;
    for (;;) {
      std::string_view line;
      SPARSEAGG_ASSIGN_OR_RETURN(const bool any, reader.Next(line));
      if (!any) return lines;
      lines.emplace_back(line);
    }
  }
};

using Lines = std::vector<std::string>;

TEST_F(LineReaderTest, EndsLinesAsUnixDosAndOldMacsDo) {
  for (const char* text :
       {"a\nb\n\nc", "a\r\nb\r\n\r\nc", "a\rb\r\rc", "a\rb\n\r\nc\r", "a\nb\r\rc\n"}) {
    EXPECT_EQ(Read(text).value(), (Lines{"a", "b", "", "c"})) << text;
    EXPECT_EQ(Read(Gzip(text)).value(), (Lines{"a", "b", "", "c"})) << text;
  }
  EXPECT_EQ(Read("").value(), Lines{});
  EXPECT_EQ(Read("\n").value(), Lines{""});
}

TEST_F(LineReaderTest, LeavesOutTheMarkOfDosAtTheEndOfAFile) {
  EXPECT_EQ(Read("a\n\x1A").value(), Lines{"a"});
  EXPECT_EQ(Read("a\x1A\x1A").value(), Lines{"a"});
  EXPECT_EQ(Read("a\n\x1A\nb").value(), (Lines{"a", "\x1A", "b"})) << "not at the end";
}

TEST_F(LineReaderTest, FindsTheSameLinesWhereverTheBufferEnds) {
  std::mt19937 random(1);
  constexpr const char* kEnds[] = {"\n", "\r\n", "\r"};
  std::string text;
  Lines lines;
  while (text.size() < (size_t{3} << 20)) {  // some buffers of 1 MiB
    const size_t length = random() % 10 == 0 ? random() % 50'000 : random() % 20;
    lines.emplace_back(1 + length, static_cast<char>('a' + random() % 26));
    text += lines.back() + kEnds[random() % 3];
  }
  EXPECT_EQ(Read(text).value(), lines);
}

TEST_F(LineReaderTest, RefusesALongLineWhateverEndsIt) {
  const std::string longest(LineReader::kLineBytesMax, 'x');
  for (const char* end : {"", "\n", "\r\n", "\r"}) {
    EXPECT_EQ(Read(longest + end).value(), Lines{longest});
    EXPECT_TRUE(HasError(Read("a\n" + longest + "x" + end).status(), "MALFORMED_FILE",
                         "line 2: is longer than 65536 bytes"));
  }
}

}  // namespace
}  // namespace sparseagg::client

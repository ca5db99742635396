#include "client/cli/progress_bar.h"

#include "tests/client/support.h"

namespace sparseagg::cli {
namespace {

TEST(FormatProgressTest, FillsTheBarWithTheShare) {
  EXPECT_EQ(FormatProgress("reduce", 1, 2, "1 of 2"),
            "reduce  [" + std::string(15, '#') + std::string(15, ' ') + "]   50 %  1 of 2");
}

TEST(FormatProgressTest, StaysInsideTheBarWhateverTheNumbers) {
  EXPECT_THAT(FormatProgress("x", 0, 0, ""), ::testing::HasSubstr("100 %"));
  EXPECT_THAT(FormatProgress("x", 9, 3, ""), ::testing::HasSubstr("100 %"));
  EXPECT_EQ(FormatProgress("x", UINT64_MAX, 1, "").size(), FormatProgress("x", 0, 1, "").size());
}

}  // namespace
}  // namespace sparseagg::cli

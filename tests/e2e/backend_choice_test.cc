// Tests --backend with the real program. The available back ends depend on the build and the
// machine; the expectations do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/e2e/server_process.h"

namespace sparseagg {
namespace {

using ::testing::HasSubstr;

TEST(BackendChoiceTest, AutoServesWithWhatThereIsAndSaysWhatThereIsNot) {
  testing::ServerProcess server({"--backend", "auto"});
  ASSERT_NE(server.address(), "") << server.log();
  ASSERT_TRUE(server.WaitForLog("event=serving"));
  const std::string log = server.log();
  if (log.find("backend=cuda device=") == std::string::npos) {
    EXPECT_THAT(log, HasSubstr("backend=cpu device="));
  }
  // The log has one such line, and only for a back end of this build.
  const auto line = log.find("event=\"back end not available\"");
  if (line != std::string::npos) {
    EXPECT_THAT(log.substr(line), HasSubstr("backend=cuda message=\"no usable GPU: "));
    EXPECT_EQ(log.find("event=\"back end not available\"", line + 1), std::string::npos);
  }
}

TEST(BackendChoiceTest, ABackEndThatCannotBeUsedIsAnErrorThatSaysWhy) {
  testing::ServerProcess server({"--backend", "cuda"});
  if (!server.address().empty()) {
    EXPECT_TRUE(server.WaitForLog("backend=cuda"));  // a machine with a GPU
    return;
  }
  EXPECT_EQ(server.Wait(), 1);
  EXPECT_THAT(server.log(), ::testing::AnyOf(HasSubstr("reason=BACKEND_UNAVAILABLE"),
                                             HasSubstr("reason=UNKNOWN_BACKEND")));
  EXPECT_THAT(server.log(), ::testing::AnyOf(HasSubstr("no usable GPU"),
                                             HasSubstr("is not in this build; use one of auto")));
}

TEST(BackendChoiceTest, TheCpuIsServedWithoutALineAboutOthers) {
  testing::ServerProcess server({"--backend", "cpu"});
  ASSERT_TRUE(server.WaitForLog("backend=cpu"));
  EXPECT_THAT(server.log(), ::testing::Not(HasSubstr("back end not available")));
}

// A process that exceeds its container's limit is killed, so the server compares the sum of its own
// limits with it.
TEST(MemoryWarningTest, ComesWhereLimitsAllowMoreThanThereIs) {
  constexpr std::string_view kWarning = "the limits allow more memory than is available";
  testing::ServerProcess by_default({"--backend", "cpu"});
  EXPECT_THAT(by_default.log(), ::testing::Not(HasSubstr(kWarning)));
  testing::ServerProcess greedy({"--aggregation-bytes-max", "512TiB"});
  EXPECT_THAT(greedy.log(), HasSubstr(kWarning));
}

}  // namespace
}  // namespace sparseagg

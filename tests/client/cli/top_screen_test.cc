#include "client/cli/top_screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace sparseagg::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

nlohmann::json Status() {
  return nlohmann::json::parse(R"({
    "version": "1.2.3", "phase": "serving", "listen": "127.0.0.1:50061", "now": 200000, "start_time": 140000,
    "engine": {"backend": {"name": "cpu", "description": "2 threads"},
               "staging": {"used": 512, "max": 1024}, "aggregation": {"used": 0, "max": 1024},
               "rounds_use": {"used": 2, "max": 1000}},
    "totals": {"accepted": 12345, "payload_bytes": 1048576},
    "refusals": {"by_reason": {"STAGING_FULL": 3, "SHAPE_MISMATCH": 40}},
    "history": {"columns": ["number", "updates_per_s", "bytes_per_s"], "rows": [[1, 7, 1024], [2, 250, 2048]]}})");
}

nlohmann::json Rounds() {
  return nlohmann::json::parse(R"({"total": 2, "rounds": [
    {"name": "rounds/step-2", "state": "OPEN", "contributors": 7, "goal": 20, "nnz": 15000, "bytes": 2048, "plan": "rows",
     "create_time": 170000},
    {"name": "rounds/bad\u001b[2J", "state": "ABORTED", "contributors": 1, "nnz": 1, "bytes": 12, "create_time": 1}]})");
}

TEST(TopScreenTest, ShowsTheLatestRatesTheMemoryAndTheRounds) {
  const std::string screen = DrawTop(Status(), Rounds(), {.columns = 120, .lines = 30});
  EXPECT_THAT(screen,
              HasSubstr("sparseagg 1.2.3  serving  127.0.0.1:50061  up 60 s  cpu (2 threads)"));
  EXPECT_THAT(screen, HasSubstr("250/s"));
  EXPECT_THAT(screen, HasSubstr("12.3 k"));
  EXPECT_THAT(screen, HasSubstr("[##########..........]"));
  EXPECT_THAT(screen, HasSubstr("refused  SHAPE_MISMATCH 40  STAGING_FULL 3"));
  EXPECT_THAT(screen, HasSubstr("step-2"));
  EXPECT_THAT(screen, HasSubstr("7 of 20"));
}

TEST(TopScreenTest, FitsTheTerminal) {
  const std::string screen = DrawTop(Status(), Rounds(), {.columns = 40, .lines = 8});
  EXPECT_LE(std::count(screen.begin(), screen.end(), '\n'), 8);
  size_t begin = 0;
  for (size_t end = 0; (end = screen.find('\n', begin)) != std::string::npos; begin = end + 1) {
    EXPECT_LE(end - begin, 40);
  }
}

TEST(TopScreenTest, LongNamesKeepTheirEnds) {
  nlohmann::json rounds = Rounds();
  rounds["rounds"][0]["name"] = "tenants/acme/rounds/r20261123-041500-9f3a2b";
  rounds["rounds"][1]["name"] = "rounds/of-exactly-28-characters-abc";
  const std::string screen = DrawTop(Status(), rounds, {.columns = 120, .lines = 30});
  EXPECT_THAT(screen, HasSubstr("\ntenants/acme...041500-9f3a2b OPEN "));
  EXPECT_THAT(screen, HasSubstr("\nof-exactly-28-characters-abc "));
}

TEST(TopScreenTest, ANameOfTheServerCannotMoveTheCursor) {
  EXPECT_THAT(DrawTop(Status(), Rounds(), {.columns = 120, .lines = 30}), Not(HasSubstr("\033")));
}

TEST(TopScreenTest, ShowsAServerThatStarts) {
  nlohmann::json status = Status();
  status["engine"] = nullptr;
  status["phase"] = "starting";
  status["history"]["rows"] = nlohmann::json::array();
  const nlohmann::json none = {{"rounds", nlohmann::json::array()}};
  EXPECT_THAT(DrawTop(status, none, {.columns = 120, .lines = 30}), HasSubstr("starting"));
}

}  // namespace
}  // namespace sparseagg::cli

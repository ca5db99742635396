// Rows of updates as they are read after a restart.
#include "service/store/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "service/store/durable_store.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;

int64_t steps = 0;  // of the database

int CountStep(void* /*unused*/) {
  ++steps;
  return 0;
}

int CountStepsOf(sqlite3* connection, char** /*error*/, const void* /*routines*/) {
  sqlite3_progress_handler(connection, 1, CountStep, nullptr);
  return SQLITE_OK;
}

class TablesTest : public ::testing::Test {
 protected:
  void SetUp() override { Reopen(); }
  void Reopen() {
    store_.reset();
    auto opened = OpenDurableStore({.directory = folder_.path(), .free_bytes_min = 0});
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  void OpenRound(const std::string& name) {
    ASSERT_TRUE(store_->OpenRound({.name = name, .durability = Durability::kDurable}).ok());
  }
  void Put(const std::string& round, const std::string& contributor, float weight = 1) {
    const auto put = store_->Put({.round = round,
                                  .contributor = contributor,
                                  .update_id = "u",
                                  .weight = weight,
                                  .digest = std::string(32, 'd')},
                                 {.headers = "h"});
    ASSERT_TRUE(put.ok()) << put.status();
  }
  std::vector<UpdateRecord> Read(const std::string& round) {
    std::vector<UpdateRecord> updates;
    const absl::Status read =
        store_->ReadUpdates(round, [&](const UpdateRecord& update, auto... /*content*/) {
          updates.push_back(update);
          return absl::OkStatus();
        });
    EXPECT_TRUE(read.ok()) << read;
    return updates;
  }

  testing::TemporaryFolder folder_;
  std::unique_ptr<UpdateStore> store_;
};

// SQLite stores -0 as 0. Once, the row and its round were reported as damaged.
TEST_F(TablesTest, AWeightOfMinusZeroIsReadAsItWasAccepted) {
  OpenRound("rounds/r");
  Put("rounds/r", "a", -0.0f);
  Put("rounds/r", "b", 0.0f);
  Reopen();
  EXPECT_EQ(store_->Rounds()[0].damage, "");
  const std::vector<UpdateRecord> updates = Read("rounds/r");
  ASSERT_EQ(updates.size(), 2u);
  EXPECT_TRUE(std::signbit(updates[0].weight)) << "its digest has the sign";
  EXPECT_FALSE(std::signbit(updates[1].weight));
}

TEST_F(TablesTest, UpdatesAreReadInTheOrderOfAcceptance) {
  OpenRound("rounds/r");
  for (const char* contributor : {"z", "a", "m"}) Put("rounds/r", contributor);
  std::vector<std::string> contributors;
  for (const UpdateRecord& update : Read("rounds/r")) contributors.push_back(update.contributor);
  EXPECT_THAT(contributors, ElementsAre("z", "a", "m"));
}

// Once, each update was searched among all that other rounds had accepted in between.
TEST_F(TablesTest, OtherRoundsCostReadingNothing) {
  const auto count = reinterpret_cast<void (*)()>(CountStepsOf);
  sqlite3_auto_extension(count);
  Reopen();
  sqlite3_cancel_auto_extension(count);
  for (const char* round : {"rounds/alone", "rounds/among", "rounds/others"}) OpenRound(round);
  constexpr int kUpdates = 10;
  constexpr int kOthers = 20;  // between two updates
  for (int i = 0; i < kUpdates; ++i) Put("rounds/alone", std::to_string(i));
  for (int i = 0; i < kUpdates; ++i) {
    Put("rounds/among", std::to_string(i));
    for (int k = 0; k < kOthers; ++k) Put("rounds/others", std::to_string(i * kOthers + k));
  }
  const auto steps_to_read = [this](const std::string& round) {
    steps = 0;
    EXPECT_EQ(Read(round).size(), size_t{kUpdates});
    return steps;
  };
  const int64_t alone = steps_to_read("rounds/alone");
  EXPECT_GT(alone, kUpdates) << "steps are counted";
  EXPECT_LE(steps_to_read("rounds/among"), alone + kUpdates);
}

}  // namespace
}  // namespace sparseagg

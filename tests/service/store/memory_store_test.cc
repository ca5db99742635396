#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "service/store/store.h"
#include "sparse/status.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;

UpdateRecord Record(std::string contributor, std::string update_id = "u", std::string digest = "d",
                    std::string round = "rounds/r") {
  return {.round = std::move(round),
          .contributor = std::move(contributor),
          .update_id = std::move(update_id),
          .weight = 2.0f,
          .digest = std::move(digest)};
}

class MemoryStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(store_->OpenRound("rounds/r", Durability::kMemory).ok()); }
  std::string PutReason(const UpdateRecord& record) {
    return ErrorReason(store_->Put(record, {}).status());
  }
  std::unique_ptr<UpdateStore> store_ = MakeMemoryStore();
};

TEST_F(MemoryStoreTest, OffersOnlyWhatItCanKeep) {
  EXPECT_TRUE(store_->Supports(Durability::kMemory));
  EXPECT_FALSE(store_->Supports(Durability::kDurable));
  const absl::Status refused = store_->OpenRound("rounds/d", Durability::kDurable);
  EXPECT_EQ(ErrorReason(refused), "DURABILITY_UNSUPPORTED");
}

TEST_F(MemoryStoreTest, OpensTheBooksOfARoundOnce) {
  EXPECT_TRUE(absl::IsAlreadyExists(store_->OpenRound("rounds/r", Durability::kMemory)));
}

TEST_F(MemoryStoreTest, NumbersUpdatesInTheOrderOfAcceptance) {
  EXPECT_EQ(store_->Put(Record("b"), {})->record.sequence, 1u);
  EXPECT_EQ(store_->Put(Record("a"), {})->record.sequence, 2u);
}

TEST_F(MemoryStoreTest, AnswersAResendWithTheFirstRecord) {
  ASSERT_TRUE(store_->Put(Record("a"), {}).ok());
  ASSERT_TRUE(store_->Put(Record("b"), {}).ok());
  const auto again = store_->Put(Record("a"), {});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->outcome, PutOutcome::kDuplicate);
  EXPECT_EQ(again->record.sequence, 1u);
}

TEST_F(MemoryStoreTest, RefusesASecondUpdateOfAContributor) {
  ASSERT_TRUE(store_->Put(Record("a"), {}).ok());
  EXPECT_EQ(PutReason(Record("a", "other")), "CONTRIBUTOR_ALREADY_COUNTED");
  EXPECT_EQ(PutReason(Record("a", "u", "other bytes")), "DIGEST_CONFLICT");
  EXPECT_EQ(store_->CloseRound("rounds/r")->size(), 1u);
}

TEST_F(MemoryStoreTest, TakesNothingAfterTheCloseButStillKnowsWhatItTook) {
  ASSERT_TRUE(store_->Put(Record("a"), {}).ok());
  ASSERT_TRUE(store_->CloseRound("rounds/r").ok());
  EXPECT_EQ(PutReason(Record("b")), "ROUND_NOT_OPEN");
  EXPECT_EQ(store_->Put(Record("a"), {})->outcome, PutOutcome::kDuplicate);
  ASSERT_TRUE(store_->ErasePayloads("rounds/r").ok());
  EXPECT_EQ(store_->Put(Record("a"), {})->outcome, PutOutcome::kDuplicate);
}

TEST_F(MemoryStoreTest, ClosesWithTheRecordsByContributor) {
  for (const char* contributor : {"c", "a", "b"}) {
    ASSERT_TRUE(store_->Put(Record(contributor), {}).ok());
  }
  std::vector<std::string> contributors;
  const auto closed = store_->CloseRound("rounds/r");
  for (const auto& record : *closed) {
    contributors.push_back(record.contributor);
  }
  EXPECT_THAT(contributors, ElementsAre("a", "b", "c"));
}

TEST_F(MemoryStoreTest, KeepsRoundsApart) {
  ASSERT_TRUE(store_->OpenRound("rounds/s", Durability::kMemory).ok());
  ASSERT_TRUE(store_->Put(Record("a"), {}).ok());
  EXPECT_FALSE(store_->Find("rounds/s", "a").has_value());
  EXPECT_EQ(store_->Put(Record("a", "u", "d", "rounds/s"), {})->outcome, PutOutcome::kAccepted);
}

TEST_F(MemoryStoreTest, ForgetsAnErasedRound) {
  ASSERT_TRUE(store_->Put(Record("a"), {}).ok());
  ASSERT_TRUE(store_->EraseRound("rounds/r").ok());
  EXPECT_FALSE(store_->Find("rounds/r", "a").has_value());
  EXPECT_EQ(PutReason(Record("a")), "ROUND_NOT_FOUND");
  EXPECT_EQ(ErrorReason(store_->CloseRound("rounds/r").status()), "ROUND_NOT_FOUND");
}

TEST_F(MemoryStoreTest, LetsOneOfManyRacingUpdatesWin) {
  std::atomic<int> accepted = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([this, i, &accepted] {
      const auto put = store_->Put(Record("a", "u" + std::to_string(i)), {});
      if (put.ok()) ++accepted;
    });
  }
  threads.clear();
  EXPECT_EQ(accepted, 1);
}

}  // namespace
}  // namespace sparseagg

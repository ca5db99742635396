// The contract of every store, in memory or on disk.
#include "service/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <ostream>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/store/durable_store.h"
#include "tests/support/effort.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using testing::TemporaryFolder;
using ::testing::UnorderedElementsAre;

UpdateRecord Record(std::string contributor, std::string update_id = "u", std::string digest = "d",
                    std::string round = "rounds/r") {
  return {.round = std::move(round),
          .contributor = std::move(contributor),
          .update_id = std::move(update_id),
          .weight = 2.0f,
          .digest = std::move(digest)};
}

struct Kind {
  const char* name;
  Durability durability;  // of the rounds of the test
  bool on_disk;
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

class StoreTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam().on_disk) {
      auto opened = OpenDurableStore({.directory = folder_.path(), .free_bytes_min = 0});
      ASSERT_TRUE(opened.ok()) << opened.status();
      store_ = *std::move(opened);
    } else {
      store_ = MakeMemoryStore();
    }
    ASSERT_TRUE(Open("rounds/r").ok());
  }
  absl::Status Open(std::string name) {
    return store_->OpenRound({.name = std::move(name), .durability = GetParam().durability});
  }
  std::string PutReason(const UpdateRecord& record) {
    return ErrorReason(store_->Put(record, {}).status());
  }

  TemporaryFolder folder_;
  std::unique_ptr<UpdateStore> store_;
};

TEST_P(StoreTest, OpensTheBooksOfARoundOnce) {
  EXPECT_TRUE(store_->Supports(GetParam().durability));
  EXPECT_TRUE(absl::IsAlreadyExists(Open("rounds/r")));
}

TEST_P(StoreTest, NumbersUpdatesInTheOrderOfAcceptance) {
  EXPECT_EQ(store_->Put(Record("b"), {})->record.sequence, 1u);
  EXPECT_EQ(store_->Put(Record("a"), {})->record.sequence, 2u);
}

TEST_P(StoreTest, AnswersAResendWithTheFirstRecord) {
  ASSERT_TRUE(store_->Put(Record("a"), {}).ok());
  ASSERT_TRUE(store_->Put(Record("b"), {}).ok());
  const auto again = store_->Put(Record("a"), {});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->outcome, PutOutcome::kDuplicate);
  EXPECT_EQ(again->record.sequence, 1u);
}

TEST_P(StoreTest, RefusesASecondUpdateOfAContributor) {
  ASSERT_TRUE(store_->Put(Record("a"), {}).ok());
  EXPECT_EQ(PutReason(Record("a", "other")), "CONTRIBUTOR_ALREADY_COUNTED");
  EXPECT_EQ(PutReason(Record("a", "u", "other bytes")), "DIGEST_CONFLICT");
  EXPECT_EQ(store_->CloseRound("rounds/r", "")->size(), 1u);
}

TEST_P(StoreTest, TakesNothingAfterTheCloseButStillKnowsWhatItTook) {
  ASSERT_TRUE(store_->Put(Record("a"), {}).ok());
  ASSERT_TRUE(store_->CloseRound("rounds/r", "").ok());
  EXPECT_EQ(PutReason(Record("b")), "ROUND_NOT_OPEN");
  EXPECT_EQ(store_->Put(Record("a"), {})->outcome, PutOutcome::kDuplicate);
  ASSERT_TRUE(store_->PublishRound("rounds/r", "", {}, false).ok());
  ASSERT_TRUE(store_->ErasePayloads("rounds/r").ok());
  EXPECT_EQ(store_->Put(Record("a"), {})->outcome, PutOutcome::kDuplicate);
}

TEST_P(StoreTest, ClosesWithTheRecordsAndAgainWithTheSame) {
  for (const char* contributor : {"c", "a", "b"}) {
    ASSERT_TRUE(store_->Put(Record(contributor), {}).ok());
  }
  for (int i = 0; i < 2; ++i) {
    std::vector<std::string> contributors;
    const auto closed = store_->CloseRound("rounds/r", "");
    for (const auto& record : *closed) contributors.push_back(record.contributor);
    EXPECT_THAT(contributors, UnorderedElementsAre("a", "b", "c"));
  }
}

TEST_P(StoreTest, KeepsRoundsApart) {
  ASSERT_TRUE(Open("rounds/s").ok());
  ASSERT_TRUE(store_->Put(Record("a"), {}).ok());
  EXPECT_FALSE(store_->Find("rounds/s", "a").has_value());
  EXPECT_EQ(store_->Put(Record("a", "u", "d", "rounds/s"), {})->outcome, PutOutcome::kAccepted);
}

TEST_P(StoreTest, CountsNobodyOfAnAbortedRound) {
  ASSERT_TRUE(store_->Put(Record("a"), {}).ok());
  ASSERT_TRUE(store_->AbortRound("rounds/r", "").ok());
  EXPECT_FALSE(store_->Find("rounds/r", "a").has_value());
  EXPECT_EQ(PutReason(Record("a")), "ROUND_NOT_OPEN");
  EXPECT_TRUE(absl::IsAlreadyExists(Open("rounds/r")));
}

TEST_P(StoreTest, ForgetsAnErasedRound) {
  ASSERT_TRUE(store_->Put(Record("a"), {}).ok());
  ASSERT_TRUE(store_->EraseRound("rounds/r").ok());
  EXPECT_FALSE(store_->Find("rounds/r", "a").has_value());
  EXPECT_EQ(PutReason(Record("a")), "ROUND_NOT_FOUND");
  EXPECT_EQ(ErrorReason(store_->CloseRound("rounds/r", "").status()), "ROUND_NOT_FOUND");
  EXPECT_TRUE(Open("rounds/r").ok());
}

TEST_P(StoreTest, LetsOneOfManyRacingUpdatesWin) {
  std::atomic<int> accepted = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([this, i, &accepted] {
      const auto put = store_->Put(Record("a", absl::StrCat("u", i)), {});
      if (put.ok()) ++accepted;
    });
  }
  threads.clear();
  EXPECT_EQ(accepted, 1);
}

TEST_P(StoreTest, AcceptsEachOfManyRacingDuplicatesOnce) {
  constexpr int kThreads = 64;
  const int updates = testing::Effort("SPARSEAGG_RACING_UPDATES", 100);
  std::atomic<int> accepted = 0;
  std::atomic<int> duplicates = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < updates; ++i) {
        const auto put = store_->Put(Record(absl::StrCat("c", i)), {});
        ASSERT_TRUE(put.ok()) << put.status();
        ++(put->outcome == PutOutcome::kAccepted ? accepted : duplicates);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(accepted, updates);
  EXPECT_EQ(duplicates, (kThreads - 1) * updates);
  const auto closed = store_->CloseRound("rounds/r", "");
  std::set<uint64_t> sequences;
  for (const UpdateRecord& record : *closed) sequences.insert(record.sequence);
  EXPECT_EQ(sequences.size(), static_cast<size_t>(updates));
  EXPECT_EQ(*sequences.rbegin(), static_cast<uint64_t>(updates));
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreTest,
                         ::testing::Values(Kind{"Memory", Durability::kMemory, false},
                                           Kind{"Durable", Durability::kDurable, true},
                                           Kind{"MemoryRoundsBesideDurableOnes",
                                                Durability::kMemory, true}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(MemoryStoreTest, OffersOnlyWhatItCanKeep) {
  const auto store = MakeMemoryStore();
  EXPECT_FALSE(store->Supports(Durability::kDurable));
  const absl::Status refused =
      store->OpenRound({.name = "rounds/d", .durability = Durability::kDurable});
  EXPECT_EQ(ErrorReason(refused), "DURABILITY_UNSUPPORTED");
}

}  // namespace
}  // namespace sparseagg

// Deleting a round is atomic for readers, whenever the process ends; its data is erased from the
// disk as soon as possible.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/store/durable_store.h"
#include "service/store/store_errors.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

namespace fs = std::filesystem;

constexpr char kRound[] = "rounds/r";

class DeletionTest : public ::testing::Test {
 protected:
  void SetUp() override { Reopen(); }
  void Reopen() {
    store_.reset();
    auto opened = OpenDurableStore({.directory = folder_.path(),
                                    .free_bytes_min = 0,
                                    .failpoints = {[this](Failpoint point) { return At(point); }}});
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  void OpenRound(const std::string& name = kRound) {
    ASSERT_TRUE(store_->OpenRound({.name = name, .durability = Durability::kDurable}).ok());
  }
  void Put(const std::string& contributor, size_t bytes, const std::string& round = kRound) {
    const std::string payload(bytes, 'x');
    const std::string_view pieces[] = {payload};
    const auto put = store_->Put({.round = round,
                                  .contributor = contributor,
                                  .update_id = "u",
                                  .digest = std::string(32, 'd')},
                                 {.headers = "h", .payload = pieces});
    ASSERT_TRUE(put.ok()) << put.status();
  }
  void Publish(bool keep_updates) {
    OpenRound();
    for (const char* contributor : {"a", "b"}) Put(contributor, 200'000);
    Put("c", 10);
    ASSERT_TRUE(store_->CloseRound(kRound, "").ok());
    ASSERT_TRUE(store_->PublishRound(kRound, "", {}, keep_updates).ok());
  }
  size_t Payloads() const {
    return std::distance(fs::directory_iterator(folder_.path() + "/payloads"), {});
  }
  uint64_t DatabaseBytes() const { return fs::file_size(folder_.path() + "/store.db"); }
  absl::Status Read(const std::string& round = kRound) const {
    return store_->ReadUpdates(round, [](const UpdateRecord&, std::string_view, std::string_view) {
      return absl::OkStatus();
    });
  }

  testing::TemporaryFolder folder_;
  int room_ = -1;  // transactions until the disk is full; negative: never
  std::unique_ptr<UpdateStore> store_;

 private:
  absl::Status At(Failpoint point) {
    if (point != Failpoint::kTransactionBegun || room_ < 0) return absl::OkStatus();
    return room_-- > 0 ? absl::OkStatus() : (room_ = 0, StoreFull());
  }
};

TEST_F(DeletionTest, TheRoundIsGoneAtOnceAndItsNameIsFree) {
  Publish(/*keep_updates=*/true);
  ASSERT_TRUE(store_->EraseRound(kRound).ok());
  EXPECT_TRUE(store_->Rounds().empty());
  EXPECT_FALSE(store_->Find(kRound, "a").has_value());
  EXPECT_EQ(ErrorReason(Read()), "ROUND_NOT_FOUND");
  OpenRound();
  Put("a", 300'000);
  EXPECT_EQ(Payloads(), 3u);
  ASSERT_TRUE(store_->EraseLeftovers().ok());
  EXPECT_EQ(Payloads(), 1u);  // the new round's
  Reopen();
  EXPECT_EQ(store_->Rounds().size(), 1u);
  EXPECT_TRUE(Read().ok());
}

TEST_F(DeletionTest, WhatAnEndedProcessLeftIsErasedByTheNext) {
  Publish(/*keep_updates=*/true);
  ASSERT_TRUE(store_->RetireRound({.round = kRound}).ok());
  Reopen();
  EXPECT_TRUE(store_->Rounds().empty());
  EXPECT_EQ(store_->Tombstones().size(), 1u);
  EXPECT_EQ(Payloads(), 0u);
}

TEST_F(DeletionTest, AFullDiskDelaysItAndStopsNoStart) {
  Publish(/*keep_updates=*/true);
  room_ = 0;
  EXPECT_EQ(ErrorReason(store_->EraseRound(kRound)), "STORE_FULL");
  EXPECT_EQ(store_->Rounds().size(), 1u);  // unchanged
  EXPECT_TRUE(Read().ok());
  room_ = 1;
  ASSERT_TRUE(store_->EraseRound(kRound).ok());
  EXPECT_EQ(ErrorReason(store_->EraseLeftovers()), "STORE_FULL");
  room_ = 1;  // the transaction that increments the epoch
  Reopen();
  EXPECT_TRUE(store_->Rounds().empty());
  EXPECT_EQ(Payloads(), 2u);
  room_ = -1;
  ASSERT_TRUE(store_->EraseLeftovers().ok());
  EXPECT_EQ(Payloads(), 0u);
}

TEST_F(DeletionTest, AnAbortedRoundIsErasedByTheNextStart) {
  OpenRound();
  for (int i = 0; i < 5000; ++i) Put(absl::StrCat(i), 0);
  Put("large", 200'000);
  ASSERT_TRUE(store_->AbortRound(kRound, "why").ok());
  EXPECT_EQ(Payloads(), 1u);
  Reopen();
  ASSERT_EQ(store_->Rounds().size(), 1u);
  EXPECT_EQ(store_->Rounds()[0].damage, "");
  EXPECT_EQ(Payloads(), 0u);
  Reopen();
  EXPECT_EQ(store_->Rounds()[0].details, "why");
}

// The file of a new update was once deleted with the damaged round.
TEST_F(DeletionTest, TheNumberOfALostFileIsNotGivenAgain) {
  OpenRound();
  Put("a", 200'000);
  for (const auto& file : fs::directory_iterator(folder_.path() + "/payloads")) {
    fs::remove(file.path());
  }
  Reopen();
  OpenRound("rounds/other");
  Put("a", 300'000, "rounds/other");
  ASSERT_TRUE(store_->EraseRound(kRound).ok());
  ASSERT_TRUE(store_->EraseLeftovers().ok());
  Reopen();
  EXPECT_TRUE(Read("rounds/other").ok());
}

TEST_F(DeletionTest, GivesTheFileSystemBackWhatRoundsTook) {
  OpenRound();
  for (int i = 0; i < 620; ++i) Put(absl::StrCat(i), 130'000);
  ASSERT_TRUE(store_->AbortRound(kRound, "").ok());
  ASSERT_TRUE(store_->EraseRound(kRound).ok());
  ASSERT_TRUE(store_->EraseLeftovers().ok());
  EXPECT_LT(DatabaseBytes(), uint64_t{72} << 20);
}

}  // namespace
}  // namespace sparseagg

// Two requests, of which one is paused in the middle of the other: the contract holds in the worst
// interleaving. Numbers are those of the table in docs/testing.md.
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "service/store/durable_store.h"
#include "service/store/failpoints.h"
#include "tests/service/engine/testing.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using testing::FailsWith;
using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;
using testing::Values;

// Pauses the next thread that passes a failpoint.
class Pause {
 public:
  void Arm(Failpoint point) {
    std::lock_guard lock(mutex_);
    armed_ = point;
  }
  absl::Status Pass(Failpoint point) {
    std::unique_lock lock(mutex_);
    if (armed_ != point) return absl::OkStatus();
    armed_.reset();
    held_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !held_; });
    return absl::OkStatus();
  }
  void WaitUntilHeld() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return held_; });
  }
  void Release() {
    std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Failpoint> armed_;
  bool held_ = false;
};

// A thread; a test can wait until it is done or blocked.
class Request {
 public:
  explicit Request(std::function<void()> make)
      : thread_([this, make = std::move(make)] {
          id_ = gettid();
          make();
          ended_ = true;
        }) {}
  // Waits until the thread is done or sleeps. As all other threads are paused or idle, it then
  // waits for one of them. The outcome must not depend on the scheduler.
  void WaitUntilBlocked() const {
    for (int asleep = 0; !ended_ && asleep < 20;) {
      asleep = Sleeps() ? asleep + 1 : 0;
      std::this_thread::yield();
    }
  }
  void Join() { thread_.join(); }

 private:
  bool Sleeps() const {
    std::ifstream stat("/proc/self/task/" + std::to_string(id_) + "/stat");
    std::string line;
    std::getline(stat, line);
    const size_t name_end = line.rfind(") ");
    return name_end != std::string::npos && line[name_end + 2] == 'S';
  }

  std::atomic<pid_t> id_{0};
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

class InterleavingTest : public ::testing::Test {
 protected:
  InterleavingTest() {
    engine_.options.limits.retry_horizon_ms = 0;  // names are reused
    const auto round = engine_->CreateRound(
        {.round_id = "r",
         .request_id = "",
         .spec = {.tensors = {Sparse("t", 1000)}, .durability = Durability::kDurable}});
    EXPECT_TRUE(round.ok()) << round.status();
  }
  std::unique_ptr<UpdateStore> Open() {
    auto store = OpenDurableStore(
        {.directory = folder_.path(),
         .free_bytes_min = 0,
         .failpoints = FailpointHook([this](Failpoint point) { return pause_.Pass(point); })});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  absl::StatusOr<Receipt> Submit(const std::string& contributor) {
    return engine_.Submit(
        TestUpdate("rounds/r", contributor).Add(Sparse("t", 1000), {7}, std::vector<float>{1}));
  }
  RoundState StateOf() { return engine_->GetRound("rounds/r")->state; }

  testing::TemporaryFolder folder_;
  Pause pause_;
  TestEngine engine_{testing::MakeBackend("cpu"), [this] { return Open(); }};
};

TEST_F(InterleavingTest, AResendDuringTheCommitGetsTheSameReceipt) {
  pause_.Arm(Failpoint::kCommitted);
  absl::StatusOr<Receipt> first;
  std::thread submitting([&] { first = Submit("a"); });
  pause_.WaitUntilHeld();
  absl::StatusOr<Receipt> second;
  Request resending([&] { second = Submit("a"); });
  resending.WaitUntilBlocked();
  pause_.Release();
  submitting.join();
  resending.Join();
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_FALSE(first->duplicate);
  EXPECT_TRUE(second->duplicate);
  EXPECT_EQ(second->sequence, first->sequence);
  EXPECT_EQ(engine_->GetRound("rounds/r")->contributors, 1u);
}

TEST_F(InterleavingTest, AnUpdateThatIsBeingCommittedWhenTheRoundIsSealedIsInTheResult) {
  for (const Failpoint point : {Failpoint::kGroupTaken, Failpoint::kRowsWritten,
                                Failpoint::kCommitted, Failpoint::kMemoryUpdated}) {
    const std::string contributor = "c" + std::to_string(static_cast<int>(point));
    pause_.Arm(point);
    absl::StatusOr<Receipt> receipt;
    std::thread submitting([&] { receipt = Submit(contributor); });
    pause_.WaitUntilHeld();
    absl::StatusOr<RoundSnapshot> sealed;
    Request sealing([&] { sealed = engine_->SealRound("rounds/r"); });
    sealing.WaitUntilBlocked();
    EXPECT_EQ(StateOf(), RoundState::kOpen);
    pause_.Release();
    submitting.join();
    sealing.Join();
    ASSERT_TRUE(receipt.ok() && sealed.ok()) << receipt.status() << sealed.status();
    ASSERT_EQ(engine_.WaitUntilFinal("rounds/r").state, RoundState::kPublished);
    const auto result = engine_->Result("rounds/r").value();
    EXPECT_EQ(result->manifest.contributors, 1u);
    EXPECT_EQ(Values<float>(result->tensors[0]), (std::vector<float>{1}));
    ASSERT_TRUE(engine_->DeleteRound("rounds/r").ok());
    ASSERT_TRUE(engine_.Restart().ok());  // or the next pause might hold what erases it
    ASSERT_TRUE(engine_
                    ->CreateRound({.round_id = "r",
                                   .request_id = "",
                                   .spec = {.tensors = {Sparse("t", 1000)},
                                            .durability = Durability::kDurable}})
                    .ok());
  }
}

TEST_F(InterleavingTest, LookingAtRoundsDoesNotWaitForACommit) {
  ASSERT_TRUE(Submit("a").ok());
  pause_.Arm(Failpoint::kRowsWritten);
  absl::StatusOr<Receipt> receipt;
  std::thread submitting([&] { receipt = Submit("b"); });
  pause_.WaitUntilHeld();
  // On this thread, which would wait for itself.
  EXPECT_EQ(engine_->GetRound("rounds/r")->contributors, 1u);
  EXPECT_EQ(engine_->ListRounds("", 10).size(), 1u);
  EXPECT_FALSE(engine_->Result("rounds/r").ok());
  const auto resent = Submit("a");
  EXPECT_TRUE(resent.ok() && resent->duplicate) << resent.status();
  pause_.Release();
  submitting.join();
  EXPECT_TRUE(receipt.ok()) << receipt.status();
}

TEST_F(InterleavingTest, NobodyButTheCallerWaitsForTheDiskOfANewRound) {
  const auto in_memory = engine_->CreateRound(
      {.round_id = "m", .request_id = "", .spec = {.tensors = {Sparse("t", 10)}}});
  ASSERT_TRUE(in_memory.ok()) << in_memory.status();
  pause_.Arm(Failpoint::kTransactionBegun);
  absl::StatusOr<RoundSnapshot> created;
  Request creating([&] {
    created = engine_->CreateRound(
        {.round_id = "slow",
         .request_id = "",
         .spec = {.tensors = {Sparse("t", 10)}, .durability = Durability::kDurable}});
  });
  pause_.WaitUntilHeld();
  // On this thread, which would wait for itself.
  EXPECT_EQ(StateOf(), RoundState::kOpen);
  EXPECT_EQ(engine_->ListRounds("", 10).size(), 2u);
  EXPECT_TRUE(engine_->SealRound("rounds/m").ok());
  EXPECT_EQ(engine_.WaitUntilFinal("rounds/m").state, RoundState::kPublished);
  pause_.Release();
  creating.Join();
  EXPECT_TRUE(created.ok()) << created.status();
}

TEST_F(InterleavingTest, NobodyWaitsForAPublication) {
  for (const Failpoint point :
       {Failpoint::kTransactionBegun, Failpoint::kRowsWritten, Failpoint::kMemoryUpdated}) {
    ASSERT_TRUE(Submit("a").ok());
    pause_.Arm(Failpoint::kMemoryUpdated);  // the seal's failpoint
    std::thread sealing([&] { EXPECT_TRUE(engine_->SealRound("rounds/r").ok()); });
    pause_.WaitUntilHeld();
    pause_.Arm(point);  // the publication's failpoint
    pause_.Release();
    sealing.join();
    pause_.WaitUntilHeld();
    // On this thread, which would wait for itself. Once, a seal or an abort that waited blocked all
    // later callers at the gate; 64 of those were all threads that count durable updates.
    EXPECT_EQ(engine_->SealRound("rounds/r")->state, RoundState::kSealed);
    const absl::Status aborted = engine_->AbortRound("rounds/r").status();
    EXPECT_THAT(aborted, FailsWith(absl::StatusCode::kUnavailable, "STORE_BUSY"));
    EXPECT_GT(RetryAfterMs(aborted), 0u);
    EXPECT_THAT(engine_->DeleteRound("rounds/r"),
                FailsWith(absl::StatusCode::kFailedPrecondition, "ROUND_NOT_FINAL"));
    const auto resent = Submit("a");
    EXPECT_TRUE(resent.ok() && resent->duplicate) << resent.status();
    EXPECT_THAT(Submit("late").status(),
                FailsWith(absl::StatusCode::kFailedPrecondition, "ROUND_NOT_OPEN"));
    pause_.Release();
    EXPECT_EQ(engine_.WaitUntilFinal("rounds/r").state, RoundState::kPublished);
    EXPECT_TRUE(engine_->Result("rounds/r").ok());
    EXPECT_THAT(engine_->AbortRound("rounds/r").status(),
                FailsWith(absl::StatusCode::kFailedPrecondition, "ROUND_NOT_ABORTABLE"));
    ASSERT_TRUE(engine_.Restart().ok());
    EXPECT_EQ(StateOf(), RoundState::kPublished);
    ASSERT_TRUE(engine_->DeleteRound("rounds/r").ok());
    ASSERT_TRUE(engine_.Restart().ok());  // or the next pause might hold what erases it
    ASSERT_TRUE(engine_
                    ->CreateRound({.round_id = "r",
                                   .request_id = "",
                                   .spec = {.tensors = {Sparse("t", 1000)},
                                            .durability = Durability::kDurable}})
                    .ok());
  }
}

TEST_F(InterleavingTest, ARoundThatIsDeletedWhileItsUpdatesAreErasedLeavesNothing) {
  std::vector<int64_t> rows(1000);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
  for (const char* contributor : {"a", "b"}) {
    TestUpdate update("rounds/r", contributor);
    for (int copy = 0; copy < 20; ++copy)
      rows.insert(rows.end(), rows.begin(), rows.begin() + 1000);
    update.Add(Sparse("t", 1000), rows, std::vector<float>(rows.size(), 1.0f));
    ASSERT_TRUE(engine_.Submit(std::move(update)).ok());
  }
  pause_.Arm(Failpoint::kPayloadDeleted);
  ASSERT_TRUE(engine_->SealRound("rounds/r").ok());
  pause_.WaitUntilHeld();
  EXPECT_EQ(StateOf(), RoundState::kPublished);
  absl::Status deleted;
  Request deleting([&] { deleted = engine_->DeleteRound("rounds/r"); });
  deleting.WaitUntilBlocked();
  pause_.Release();
  deleting.Join();
  EXPECT_TRUE(deleted.ok()) << deleted;
  ASSERT_TRUE(engine_.Restart().ok());
  EXPECT_TRUE(engine_->ListRounds("", 10).empty());
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() + "/payloads"));
}

}  // namespace
}  // namespace sparseagg

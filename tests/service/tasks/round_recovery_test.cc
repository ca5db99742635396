// Tasks of rounds that a start could not restore, with a real engine.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "service/server_tasks.h"
#include "service/store/durable_store.h"
#include "tests/service/engine/testing.h"
#include "tests/sim/faulty_backend.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;

constexpr char kGroup[] = "taskgroups/g";

std::unique_ptr<sim::FaultyBackend> MakeScarceBackend() {
  auto backend = std::make_unique<sim::FaultyBackend>();
  backend->failure =
      MakeError(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY", "there is no memory");
  return backend;
}

class RoundRecoveryTest : public ::testing::Test {
 protected:
  AcquiredTasks Acquire() {
    return tasks_->Acquire("default", {.worker = "w", .pools = {"pool"}}).value();
  }
  std::unique_ptr<UpdateStore> Open() {
    auto store = OpenDurableStore({.directory = folder_.path(), .free_bytes_min = 0}).value();
    rows_ = store.get();
    return store;
  }
  // The next process.
  void Start() {
    tasks_.reset();
    ASSERT_TRUE(engine_.Restart().ok());
    tasks_ = std::make_unique<Tasks>(TaskOptions(), engine_.store(), rows_);
    const absl::Status recovered = RecoverTasks(*tasks_, engine_.engine(), Log(LogLevel::kError));
    ASSERT_TRUE(recovered.ok()) << recovered;
  }
  absl::Status CreateTasks(const std::string& id) {
    const TaskGroupSpec spec{.group_id = id, .pool = "pool", .round = "rounds/r", .count = 2};
    return tasks_->Create({.groups = {spec}}).status();
  }

  testing::TemporaryFolder folder_;
  const TensorSpec spec_ = Sparse("t", 100, "sum", ValueType::kI32);
  std::unique_ptr<sim::FaultyBackend> backend_ = MakeScarceBackend();
  std::atomic<bool>& scarce_ = backend_->device_fails;
  TaskRowStore* rows_ = nullptr;
  TestEngine engine_{std::move(backend_), [this] { return Open(); }};
  std::unique_ptr<Tasks> tasks_;
};

TEST_F(RoundRecoveryTest, TasksOfARoundThatTheNextStartRestoresStay) {
  Start();
  engine_.Create(RoundSpec{.tensors = {spec_}, .durability = Durability::kDurable});
  ASSERT_TRUE(CreateTasks("g").ok());
  ASSERT_TRUE(engine_
                  .Submit(TestUpdate("rounds/r", "g/1")
                              .Add(spec_, std::vector<int64_t>{7}, std::vector<int32_t>{1}))
                  .ok());
  engine_->Drain();
  scarce_ = true;
  Start();
  ASSERT_EQ(engine_->GetRound("rounds/r")->state, RoundState::kAborted);
  EXPECT_EQ(tasks_->GetGroup("default", kGroup)->available, 2u);
  EXPECT_EQ(ErrorReason(CreateTasks("h")), "ROUND_NOT_OPEN");
  EXPECT_EQ(Acquire().tasks.size(), 0u) << "the round takes no update";
  scarce_ = false;
  Start();
  ASSERT_EQ(engine_->GetRound("rounds/r")->state, RoundState::kOpen);
  EXPECT_EQ(tasks_->GetGroup("default", kGroup)->available, 2u);
  EXPECT_TRUE(CreateTasks("h").ok());
  EXPECT_EQ(Acquire().tasks.size(), 1u);
}

// As the server does it.
class TellsTasks : public EngineObserver {
 public:
  explicit TellsTasks(std::unique_ptr<Tasks>& tasks) : tasks_(tasks) {}
  void OnRoundState(const RoundSnapshot& round) override {
    if (tasks_ != nullptr) tasks_->OnRoundState(round);
  }

 private:
  std::unique_ptr<Tasks>& tasks_;
};

TEST_F(RoundRecoveryTest, TasksOfARoundThatFailsForLackOfMemoryStay) {
  engine_.options.observer = std::make_shared<TellsTasks>(tasks_);
  Start();
  engine_.Create(RoundSpec{.tensors = {spec_}, .durability = Durability::kDurable});
  ASSERT_TRUE(CreateTasks("g").ok());
  scarce_ = true;
  ASSERT_TRUE(engine_
                  .Submit(TestUpdate("rounds/r", "g/1")
                              .Add(spec_, std::vector<int64_t>{7}, std::vector<int32_t>{1}))
                  .ok());
  engine_->Drain();
  ASSERT_EQ(engine_->GetRound("rounds/r")->state, RoundState::kAborted);
  EXPECT_EQ(ErrorReason(CreateTasks("h")), "ROUND_NOT_OPEN");
  EXPECT_EQ(tasks_->GetGroup("default", kGroup)->available, 2u);
  EXPECT_EQ(tasks_->GetGroup("default", kGroup)->cancelled, 0u);
  EXPECT_EQ(Acquire().tasks.size(), 0u) << "the round takes no update";
  scarce_ = false;
  Start();
  ASSERT_EQ(engine_->GetRound("rounds/r")->state, RoundState::kOpen);
  EXPECT_EQ(tasks_->GetGroup("default", kGroup)->available, 2u);
  // Once it is deleted they end.
  scarce_ = true;
  Start();
  ASSERT_TRUE(engine_->DeleteRound("rounds/r").ok());
  tasks_->Tick();
  const auto gone = tasks_->GetGroup("default", kGroup);
  EXPECT_TRUE(!gone.ok() || gone->cancelled == 2u);
}

TEST_F(RoundRecoveryTest, TasksOfARoundThatWasAbortedEnd) {
  Start();
  engine_.Create(RoundSpec{.tensors = {spec_}, .durability = Durability::kDurable});
  ASSERT_TRUE(CreateTasks("g").ok());
  ASSERT_TRUE(engine_->AbortRound("rounds/r").ok());  // this test's engine does not tell the tasks
  Start();
  EXPECT_EQ(tasks_->GetGroup("default", kGroup)->cancelled, 2u);
  EXPECT_EQ(ErrorReason(CreateTasks("h")), "ROUND_NOT_OPEN");
}

}  // namespace
}  // namespace sparseagg

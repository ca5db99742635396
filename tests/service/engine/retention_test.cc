// Ended rounds are deleted when their retention is over; other rounds stay.
#include "tests/service/engine/testing.h"

namespace sparseagg {
namespace {

using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;

constexpr std::chrono::minutes kRetention{10};

class RetentionTest : public ::testing::Test {
 protected:
  RetentionTest() {
    engine_.options.limits.result_retention_ms = std::chrono::milliseconds(kRetention).count();
    engine_.options.check_interval = std::chrono::milliseconds(1);
  }
  void Publish(const std::string& id) {
    engine_.Create({Sparse("t", 10)}, id);
    ASSERT_TRUE(
        engine_.Submit(TestUpdate("rounds/" + id, "a").Add<float>(Sparse("t", 10), {1}, {2})).ok());
    engine_.SealAndWait("rounds/" + id);
  }
  bool Exists(const std::string& id) { return engine_->GetRound("rounds/" + id).ok(); }
  // Returns when the round is deleted.
  void WaitUntilGone(const std::string& id) {
    std::mutex mutex;
    std::condition_variable changed;
    bool gone = false;
    const auto watch = engine_->Watch("rounds/" + id, WatchScope::kEveryChange,
                                      [&](const std::optional<RoundSnapshot>& round) {
                                        std::lock_guard lock(mutex);
                                        gone = !round.has_value();
                                        changed.notify_all();
                                      });
    if (!watch.ok()) return;  // gone already
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return gone; });
  }

  TestEngine engine_;
};

TEST_F(RetentionTest, APublishedRoundGoesWhenItsTimeIsOver) {
  Publish("early");
  engine_.clock.Advance(kRetention / 2);
  Publish("late");
  engine_.clock.Advance(kRetention / 2);
  WaitUntilGone("early");
  EXPECT_FALSE(Exists("early"));
  EXPECT_TRUE(Exists("late"));
  engine_.clock.Advance(kRetention / 2);
  WaitUntilGone("late");
  EXPECT_FALSE(Exists("late"));
}

TEST_F(RetentionTest, AnAbortedRoundGoesAndAnOpenOneStays) {
  engine_.Create({Sparse("t", 10)}, "open");
  engine_.Create({Sparse("t", 10)}, "aborted");
  ASSERT_TRUE(engine_->AbortRound("rounds/aborted").ok());
  EXPECT_TRUE(Exists("aborted"));
  engine_.clock.Advance(2 * kRetention);
  WaitUntilGone("aborted");
  EXPECT_FALSE(Exists("aborted"));
  EXPECT_TRUE(Exists("open"));
}

}  // namespace
}  // namespace sparseagg

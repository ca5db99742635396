#include "cuda/device/watchdog.h"

#include <gtest/gtest.h>

#include <chrono>

namespace sparseagg::gpu {
namespace {

using std::chrono::seconds;

class WatchdogTest : public ::testing::Test {
 protected:
  std::chrono::steady_clock::time_point now_;
  Waits waits_;
  Watchdog watchdog_{waits_, seconds(60), [this] { return now_; }};
};

TEST_F(WatchdogTest, IsQuietWhileNobodyWaits) {
  EXPECT_FALSE(watchdog_.Barks());
  now_ += seconds(1000);
  EXPECT_FALSE(watchdog_.Barks());
}

TEST_F(WatchdogTest, BarksWhenOneWaitLastsForTheWholeLimitAndFromThenOn) {
  EXPECT_THROW(waits_.During([&] {
    EXPECT_FALSE(watchdog_.Barks());
    now_ += seconds(59);
    EXPECT_FALSE(watchdog_.Barks());
    now_ += seconds(1);
    EXPECT_TRUE(watchdog_.Barks());
    return 0;
  }),
               CudaError);
  EXPECT_TRUE(watchdog_.Barks());
}

TEST_F(WatchdogTest, CountsFromTheFirstLookNotFromTheBegin) {
  EXPECT_EQ(waits_.During([&] {
    now_ += seconds(1000);  // nobody looked
    EXPECT_FALSE(watchdog_.Barks());
    return 7;
  }),
            7);
}

TEST_F(WatchdogTest, ManyWaitsOneAfterAnotherAreNoHang) {
  for (int wait = 0; wait < 100; ++wait) {
    EXPECT_EQ(waits_.During([&] {
      EXPECT_FALSE(watchdog_.Barks());
      now_ += seconds(40);
      EXPECT_FALSE(watchdog_.Barks());
      return wait;
    }),
              wait);
  }
}

TEST_F(WatchdogTest, AThreadThatWasGivenUpDoesNotWaitAgain) {
  EXPECT_THROW(waits_.During([&] { return waits_.GiveUp(waits_.current()); }), CudaError);
  bool ran = false;
  EXPECT_THROW(waits_.During([&] { return ran = true; }), CudaError);
  EXPECT_FALSE(ran);
}

TEST_F(WatchdogTest, AWaitThatHasEndedCannotBeGivenUp) {
  const uint64_t wait = waits_.During([&] { return waits_.current(); });
  EXPECT_EQ(waits_.current(), Waits::kNone);
  EXPECT_FALSE(waits_.GiveUp(wait));
  EXPECT_EQ(waits_.During([] { return 1; }), 1);
}

TEST_F(WatchdogTest, AWaitThatEndsWithAnExceptionHasEnded) {
  EXPECT_THROW(waits_.During([]() -> int { throw CudaError(cudaErrorIllegalAddress, "a wait"); }),
               CudaError);
  EXPECT_EQ(waits_.current(), Waits::kNone);
}

}  // namespace
}  // namespace sparseagg::gpu

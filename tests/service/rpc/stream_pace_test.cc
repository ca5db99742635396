#include "service/rpc/stream/stream_pace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "base/status.h"

namespace sparseagg {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

// 1000 bytes/s over 10 s; idle after 60 s with an update in progress, after 100 s without.
class StreamPaceTest : public ::testing::Test {
 protected:
  // The server waits `wait`, then `bytes` come.
  absl::Status Receive(milliseconds wait, uint64_t bytes, bool uploading = true) {
    pace_.BeginWait(now_);
    now_ += wait;
    return pace_.EndWait(now_, bytes, uploading);
  }

  Limits limits_ = {.upload_idle_ms = 60'000,
                    .stream_idle_ms = 100'000,
                    .upload_rate_min = 1000,
                    .upload_rate_window_ms = 10'000};
  StreamPace pace_{limits_};
  StreamPace::Time now_;
};

TEST_F(StreamPaceTest, TakesASteadyStreamAtTheSlowestRateForEver) {
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(Receive(seconds(3), 3000).ok());
}

TEST_F(StreamPaceTest, TakesAChunkThatTakesLongerThanTheWindow) {
  EXPECT_TRUE(Receive(seconds(55), 55'000).ok());
  EXPECT_TRUE(Receive(seconds(55), 55'000).ok());
}

TEST_F(StreamPaceTest, RefusesATrickleWhenTheWindowIsUsedUp) {
  absl::Status status;
  int messages = 0;
  while (status.ok()) {
    ASSERT_LT(++messages, 100);
    status = Receive(seconds(1), 10);
  }
  EXPECT_EQ(messages, 11);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ErrorReason(status), "UPLOAD_TOO_SLOW");
  EXPECT_THAT(std::string(status.message()), HasSubstr("110 bytes in 11 s"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("upload-rate-min = 1000"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("upload-rate-window-ms = 10000"));
}

TEST_F(StreamPaceTest, ForgivesAPauseWithinTheWindow) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(Receive(seconds(9), 1000).ok()) << "the radio is gone for a while";
    ASSERT_TRUE(Receive(seconds(1), 20'000).ok()) << "and back";
  }
}

TEST_F(StreamPaceTest, HavingBeenFastIsNoCreditForMoreThanTheWindow) {
  ASSERT_TRUE(Receive(seconds(1), 1'000'000).ok());
  EXPECT_FALSE(Receive(seconds(11), 10).ok());
}

TEST_F(StreamPaceTest, CountsOnlyTheTimeThatTheServerWaits) {
  for (int i = 0; i < 100; ++i) {
    now_ += seconds(30);  // the server is busy
    ASSERT_TRUE(Receive(milliseconds(5), 10).ok());
  }
}

TEST_F(StreamPaceTest, AsksForNoRateBetweenUpdates) {
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Receive(seconds(50), 10, /*uploading=*/false).ok());
}

TEST_F(StreamPaceTest, AsksForNoRateWhenItIsTurnedOff) {
  limits_.upload_rate_min = 0;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Receive(seconds(50), 1).ok());
}

TEST_F(StreamPaceTest, KnowsAnIdleUploadAndAnIdleStream) {
  pace_.BeginWait(now_);
  EXPECT_TRUE(pace_.CheckIdle(now_ + seconds(60), /*uploading=*/true).ok());
  const absl::Status upload = pace_.CheckIdle(now_ + seconds(61), /*uploading=*/true);
  EXPECT_EQ(ErrorReason(upload), "UPLOAD_EXPIRED");
  EXPECT_THAT(std::string(upload.message()), HasSubstr("upload-idle-ms = 60000"));
  EXPECT_TRUE(pace_.CheckIdle(now_ + seconds(100), /*uploading=*/false).ok());
  const absl::Status stream = pace_.CheckIdle(now_ + seconds(101), /*uploading=*/false);
  EXPECT_EQ(ErrorReason(stream), "STREAM_IDLE");
  EXPECT_THAT(std::string(stream.message()), HasSubstr("stream-idle-ms = 100000"));
  limits_.stream_idle_ms = 0;
  EXPECT_TRUE(pace_.CheckIdle(now_ + std::chrono::hours(1000), /*uploading=*/false).ok());
}

}  // namespace
}  // namespace sparseagg

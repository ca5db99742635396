#include "client/call.h"

#include <chrono>
#include <limits>

#include "client/retry.h"
#include "proto/error_details.h"
#include "tests/client/support.h"

namespace sparseagg::client {
namespace {

TEST(PrepareTest, ATimeoutWithoutEndIsNotOverAtOnce) {
  grpc::ClientContext context;
  ASSERT_TRUE(Prepare(context, {}, std::numeric_limits<uint64_t>::max()).ok());
  EXPECT_GT(context.deadline(), std::chrono::system_clock::now());
}

TEST(ToStatusTest, TakesWhatGrpcCancelsForAServerThatStopsForALostConnection) {
  const grpc::Status cancelled(grpc::StatusCode::CANCELLED, "CANCELLED");
  const absl::Status status = ToStatus(cancelled, "host:1");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrorReason(status), "CONNECTION_LOST");
  EXPECT_TRUE(IsRetryable(status));
}

TEST(ToStatusTest, LeavesWhatTheServerGivesAReason) {
  const absl::Status refusal = MakeError(absl::StatusCode::kCancelled, "GIVEN_UP", "by the server");
  const grpc::Status cancelled(grpc::StatusCode::CANCELLED, "by the server", ErrorDetails(refusal));
  const absl::Status status = ToStatus(cancelled, "host:1");
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ErrorReason(status), "GIVEN_UP");
}

}  // namespace
}  // namespace sparseagg::client

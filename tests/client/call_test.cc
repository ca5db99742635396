#include "client/transport/call.h"

#include <chrono>
#include <limits>

#include "proto/error_details.h"
#include "tests/client/support.h"

namespace sparseagg::client {
namespace {

TEST(PrepareTest, ATimeoutWithoutEndIsNotOverAtOnce) {
  grpc::ClientContext context;
  ASSERT_TRUE(Prepare(context, Caller(), std::numeric_limits<uint64_t>::max()).ok());
  EXPECT_GT(context.deadline(), std::chrono::system_clock::now());
}

TEST(ToStatusTest, LeavesWhatTheServerGivesAReason) {
  const absl::Status refusal = MakeError(absl::StatusCode::kCancelled, "GIVEN_UP", "by the server");
  const grpc::Status cancelled(grpc::StatusCode::CANCELLED, "by the server", ErrorDetails(refusal));
  const absl::Status status = ToStatus(cancelled, Route{"host:1", "host", ""});
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ErrorReason(status), "GIVEN_UP");
}

TEST(CheckProcessTest, RefusesWhatAnotherProcessMade) {
  EXPECT_TRUE(CheckProcess(getpid()).ok());
  EXPECT_TRUE(testing::HasError(CheckProcess(getppid()), "CLIENT_FORKED", "forked"));
  grpc::ClientContext context;
  Caller caller;
  caller.process = getppid();
  EXPECT_EQ(ErrorReason(Prepare(context, caller, 0)), "CLIENT_FORKED");
}

}  // namespace
}  // namespace sparseagg::client

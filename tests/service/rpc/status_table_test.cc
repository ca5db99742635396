#include "service/rpc/wire/status_table.h"

#include <gtest/gtest.h>

#include <string>

#include "base/status.h"
#include "proto/error_details.h"

namespace sparseagg {
namespace {

absl::Status RoundTrip(const absl::Status& status) {
  const grpc::Status sent = ToGrpcStatus(status);
  return FromRpcError(sent.error_code(), sent.error_message(), sent.error_details());
}

TEST(StatusTableTest, KeepsCodeMessageReasonAndRetryHint) {
  const absl::Status status = WithRetryAfter(
      MakeError(absl::StatusCode::kResourceExhausted, "STAGING_FULL", "no room for 12 bytes"),
      1250);
  const absl::Status received = RoundTrip(status);
  EXPECT_EQ(received.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(received.message(), "no room for 12 bytes");
  EXPECT_EQ(ErrorReason(received), "STAGING_FULL");
  EXPECT_EQ(RetryAfterMs(received), 1250);
}

TEST(StatusTableTest, KeepsEveryCode) {
  for (int code = 1; code <= 16; ++code) {
    EXPECT_EQ(
        static_cast<int>(
            ToGrpcStatus(absl::Status(static_cast<absl::StatusCode>(code), "m")).error_code()),
        code);
  }
}

TEST(StatusTableTest, AnErrorWithoutReasonStaysWithoutReason) {
  EXPECT_EQ(ErrorReason(RoundTrip(absl::InternalError("m"))), "");
  EXPECT_EQ(RetryAfterMs(RoundTrip(absl::InternalError("m"))), 0);
}

TEST(StatusTableTest, DetailsThatAreNotOursAreIgnored) {
  EXPECT_EQ(ErrorReason(FromRpcError(3, "m", "\xff\xff not a message")), "");
}

TEST(StatusTableTest, AStreamErrorKeepsTheSame) {
  const absl::Status status =
      WithRetryAfter(MakeError(absl::StatusCode::kUnavailable, "SERVER_DRAINING", "later"), 20);
  const absl::Status received = FromProto(ToProto(status));
  EXPECT_EQ(received, status);
}

TEST(StatusTableTest, CutsALongMessageBetweenCharacters) {
  std::string message;
  while (message.size() < 3 * kErrorMessageBytesMax) message += "\u00e9";
  for (const std::string prefix : {"", "a"}) {  // one of the two has a character across the limit
    const std::string clipped = ClipErrorMessage(prefix + message);
    EXPECT_LE(clipped.size(), kErrorMessageBytesMax);
    EXPECT_TRUE(clipped.ends_with("\u00e9..."));
  }
}

}  // namespace
}  // namespace sparseagg

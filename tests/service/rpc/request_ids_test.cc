#include "service/rpc/wire/request_ids.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace sparseagg {
namespace {

constexpr char kTraceId[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kParentId[] = "00f067aa0ba902b7";

RequestIds Parse(const std::string& traceparent) {
  RequestIds ids;
  ParseTraceparent(traceparent, ids);
  return ids;
}

std::string Traceparent(const std::string& version, const std::string& rest = "") {
  return absl::StrCat(version, "-", kTraceId, "-", kParentId, "-01", rest);
}

TEST(RequestIdsTest, TakesTraceAndParentFromATraceparent) {
  const RequestIds ids = Parse(Traceparent("00"));
  EXPECT_EQ(ids.trace_id, kTraceId);
  EXPECT_EQ(ids.parent_id, kParentId);
}

TEST(RequestIdsTest, ALaterVersionMayBeLonger) {
  EXPECT_EQ(Parse(Traceparent("01", "-more")).trace_id, kTraceId);
  EXPECT_EQ(Parse(Traceparent("00", "-more")).trace_id, "");
  EXPECT_EQ(Parse(Traceparent("01", "more")).trace_id, "");
}

TEST(RequestIdsTest, IgnoresAMalformedTraceparent) {
  EXPECT_EQ(Parse("").trace_id, "");
  EXPECT_EQ(Parse("00-x").trace_id, "");
  EXPECT_EQ(Parse(Traceparent("ff")).trace_id, "");
  EXPECT_EQ(Parse(absl::StrCat("00-", kTraceId, "_", kParentId, "-01")).trace_id, "");
  EXPECT_EQ(Parse(absl::StrCat("00-", std::string(32, '0'), "-", kParentId, "-01")).trace_id, "");
  EXPECT_EQ(Parse(absl::StrCat("00-", kTraceId, "-", std::string(16, '0'), "-01")).trace_id, "");
  EXPECT_EQ(Parse(absl::StrCat("00-", std::string(32, 'A'), "-", kParentId, "-01")).trace_id, "");
}

TEST(RequestIdsTest, TakesOverIdsThatCannotBreakALogLine) {
  EXPECT_TRUE(IsRequestId("step-17_a.b"));
  EXPECT_TRUE(IsRequestId(std::string(64, 'x')));
  EXPECT_FALSE(IsRequestId(""));
  EXPECT_FALSE(IsRequestId(std::string(65, 'x')));
  EXPECT_FALSE(IsRequestId("a b"));
  EXPECT_FALSE(IsRequestId("a\nb"));
}

TEST(RequestIdsTest, NewIdsDiffer) {
  EXPECT_EQ(NewRequestId().size(), 16);
  EXPECT_NE(NewRequestId(), NewRequestId());
}

}  // namespace
}  // namespace sparseagg

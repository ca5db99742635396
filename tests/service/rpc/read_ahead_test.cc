#include "service/rpc/read_ahead.h"

#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sparseagg {
namespace {

constexpr size_t kHalf = ReadAhead::kMessagesMax / 2;

void Push(ReadAhead& messages, const std::string& bytes) {
  const grpc::Slice slice(bytes);
  grpc::ByteBuffer message(&slice, 1);
  messages.Push(message);
}

std::string Take(ReadAhead& messages) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(messages.Take().Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) bytes.append(slice.begin(), slice.end());
  return bytes;
}

TEST(ReadAheadTest, KeepsTheOrder) {
  ReadAhead messages;
  EXPECT_TRUE(messages.empty());
  Push(messages, "a");
  Push(messages, "b");
  EXPECT_EQ(Take(messages), "a");
  Push(messages, "c");
  EXPECT_EQ(Take(messages), "b");
  EXPECT_EQ(Take(messages), "c");
  EXPECT_TRUE(messages.empty());
}

TEST(ReadAheadTest, IsFullOfManyUntilHalfOfThemAreTaken) {
  ReadAhead messages;
  for (size_t i = 0; i < ReadAhead::kMessagesMax; ++i) {
    EXPECT_TRUE(messages.has_room()) << i;
    Push(messages, "m");
  }
  EXPECT_FALSE(messages.has_room());
  for (size_t left = ReadAhead::kMessagesMax - 1; left >= kHalf; --left) {
    EXPECT_FALSE(messages.has_room()) << left;
    EXPECT_EQ(Take(messages), "m");
    EXPECT_EQ(messages.has_room(), left == kHalf);
  }
}

TEST(ReadAheadTest, ALargeMessageIsAloneUntilItHasBeenHandled) {
  const std::string large(ReadAhead::kBytesMax, 'l');
  ReadAhead messages;
  Push(messages, large);
  EXPECT_FALSE(messages.has_room());
  EXPECT_EQ(Take(messages), large);
  EXPECT_FALSE(messages.has_room());
  messages.Handled();
  EXPECT_TRUE(messages.has_room());
}

TEST(ReadAheadTest, ALargeMessageMayComeAfterSmallOnes) {
  const std::string large(ReadAhead::kBytesMax, 'l');
  ReadAhead messages;
  Push(messages, "small");
  Push(messages, large);
  EXPECT_FALSE(messages.has_room());
  EXPECT_EQ(Take(messages), "small");
  EXPECT_FALSE(messages.has_room());
  EXPECT_EQ(Take(messages), large);
  messages.Handled();
  EXPECT_TRUE(messages.has_room());
}

TEST(ReadAheadTest, WhatIsDroppedTakesNoRoom) {
  ReadAhead messages;
  Push(messages, std::string(ReadAhead::kBytesMax / 2, 'a'));
  Push(messages, std::string(ReadAhead::kBytesMax, 'b'));
  Take(messages);
  messages.Clear();
  EXPECT_TRUE(messages.empty());
  messages.Handled();
  EXPECT_TRUE(messages.has_room());
  for (size_t i = 0; i < kHalf; ++i) Push(messages, "m");
  EXPECT_TRUE(messages.has_room()) << "nothing is counted that is not there";
}

}  // namespace
}  // namespace sparseagg

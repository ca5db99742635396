#include "service/rpc/stream/read_ahead.h"

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

std::vector<std::string> Take(ReadAhead& messages) {
  std::vector<std::string> taken;
  for (const grpc::ByteBuffer& message : messages.Take()) {
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(message.Dump(&slices).ok());
    std::string& bytes = taken.emplace_back();
    for (const grpc::Slice& slice : slices) bytes.append(slice.begin(), slice.end());
  }
  return taken;
}

using Strings = std::vector<std::string>;

TEST(ReadAheadTest, KeepsTheOrder) {
  ReadAhead messages;
  EXPECT_TRUE(messages.empty());
  Push(messages, "a");
  Push(messages, "b");
  EXPECT_EQ(Take(messages), Strings({"a", "b"}));
  EXPECT_TRUE(messages.empty());
  Push(messages, "c");
  EXPECT_EQ(Take(messages), Strings({"c"}));
}

TEST(ReadAheadTest, GivesSomeAtATime) {
  ReadAhead messages;
  for (size_t i = 0; i <= ReadAhead::kTakenMax; ++i) Push(messages, std::string(i, 'm'));
  const Strings first = Take(messages);
  ASSERT_EQ(first.size(), ReadAhead::kTakenMax);
  uint64_t bytes = 0;
  for (const std::string& message : first) bytes += message.size();
  EXPECT_EQ(messages.handled_bytes(), bytes);
  EXPECT_EQ(Take(messages), Strings({std::string(ReadAhead::kTakenMax, 'm')}));
  EXPECT_EQ(messages.handled_bytes(), ReadAhead::kTakenMax);
}

TEST(ReadAheadTest, IsFullOfManyUntilHalfOfThemAreTaken) {
  ReadAhead messages;
  for (size_t i = 0; i < ReadAhead::kMessagesMax; ++i) {
    EXPECT_TRUE(messages.has_room()) << i;
    Push(messages, "m");
  }
  for (size_t left = ReadAhead::kMessagesMax; left > kHalf; left -= ReadAhead::kTakenMax) {
    EXPECT_FALSE(messages.has_room()) << left;
    Take(messages);
  }
  messages.Handled();
  EXPECT_TRUE(messages.has_room());
}

TEST(ReadAheadTest, ALargeMessageIsAloneUntilItHasBeenHandled) {
  const std::string large(ReadAhead::kBytesMax, 'l');
  ReadAhead messages;
  Push(messages, large);
  EXPECT_FALSE(messages.has_room());
  EXPECT_EQ(Take(messages), Strings({large}));
  EXPECT_FALSE(messages.has_room());
  messages.Handled();
  EXPECT_TRUE(messages.has_room());
}

TEST(ReadAheadTest, ALargeMessageMayComeAfterSmallOnes) {
  const std::string large(ReadAhead::kBytesMax, 'l');
  ReadAhead messages;
  Push(messages, "small");
  EXPECT_TRUE(messages.has_room());
  Push(messages, large);
  EXPECT_FALSE(messages.has_room());
  EXPECT_EQ(Take(messages), Strings({"small", large}));
  EXPECT_FALSE(messages.has_room());
  messages.Handled();
  EXPECT_TRUE(messages.has_room());
}

TEST(ReadAheadTest, WhatIsDroppedTakesNoRoom) {
  ReadAhead messages;
  Push(messages, std::string(ReadAhead::kBytesMax / 2, 'a'));
  Take(messages);
  Push(messages, std::string(ReadAhead::kBytesMax, 'b'));
  messages.Clear();
  EXPECT_TRUE(messages.empty());
  messages.Handled();
  EXPECT_TRUE(messages.has_room());
  for (size_t i = 0; i < kHalf; ++i) Push(messages, "m");
  EXPECT_TRUE(messages.has_room()) << "nothing is counted that is not there";
}

}  // namespace
}  // namespace sparseagg

#include "cpu/windowed/non_temporal_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <span>
#include <vector>

namespace sparseagg {
namespace {

constexpr std::byte kUntouched{0xA5};

// Writes `bytes` bytes in pieces of at most `piece_max`, from `skip` bytes after the start of a
// line on. Expects that they arrive there and that the memory around them is unchanged.
void ExpectArrives(size_t skip, size_t bytes, size_t piece_max) {
  std::mt19937_64 random(skip * 1000 + bytes + piece_max);
  std::vector<std::byte> sent(bytes);
  for (std::byte& byte : sent) byte = static_cast<std::byte>(random());
  constexpr size_t kMargin = 2 * kLineBytes;
  HostVector<std::byte> memory(kMargin + skip + bytes + kMargin);
  std::fill(memory.begin(), memory.end(), kUntouched);
  std::byte* const to = memory.data() + kMargin + skip;

  NonTemporalWriter writer(to);
  for (size_t at = 0; at < bytes;) {
    const size_t piece = std::min(bytes - at, random() % (piece_max + 1));
    writer.Write({sent.data() + at, piece});
    at += piece;
  }
  writer.Finish();

  const auto untouched = [](std::byte byte) { return byte == kUntouched; };
  EXPECT_TRUE(std::equal(sent.begin(), sent.end(), to))
      << bytes << " bytes from " << skip << " on, pieces of up to " << piece_max;
  EXPECT_TRUE(std::all_of(memory.data(), to, untouched)) << "before byte " << skip;
  EXPECT_TRUE(std::all_of(to + bytes, memory.data() + memory.size(), untouched))
      << "behind " << bytes << " bytes from " << skip << " on";
}

TEST(NonTemporalWriterTest, WritesWhatItIsGivenAndNothingElse) {
  for (size_t skip = 0; skip < kLineBytes; ++skip) {
    for (const size_t bytes : {0, 1, 4, 63, 64, 65, 128, 200, 1000, 5000}) {
      for (const size_t piece_max : {3, 64, 100, 5000}) ExpectArrives(skip, bytes, piece_max);
    }
  }
}

TEST(NonTemporalWriterTest, TwoThatMeetWithinALineKeepEachOthersBytes) {
  for (size_t meet = 1; meet < 3 * kLineBytes; ++meet) {
    HostVector<std::byte> memory(3 * kLineBytes);
    std::fill(memory.begin(), memory.end(), kUntouched);
    const std::vector<std::byte> first(meet, std::byte{1});
    const std::vector<std::byte> second(memory.size() - meet, std::byte{2});
    NonTemporalWriter front(memory.data());
    NonTemporalWriter back(memory.data() + meet);
    back.Write(second);
    front.Write(first);
    back.Finish();
    front.Finish();
    EXPECT_TRUE(std::equal(first.begin(), first.end(), memory.data())) << meet;
    EXPECT_TRUE(std::equal(second.begin(), second.end(), memory.data() + meet)) << meet;
  }
}

}  // namespace
}  // namespace sparseagg

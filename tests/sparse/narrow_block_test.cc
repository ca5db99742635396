// Fast blocks have the bytes of WriteBlock(), or none.
#include "sparse/partials/narrow_block.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace sparseagg {
namespace {

std::string Definition(std::span<const ExactNumber> numbers, const BlockKind& kind) {
  std::string bytes;
  WriteBlock(numbers, kind, bytes);
  return bytes;
}

std::vector<ExactNumber> Exact(std::span<const double> numbers) {
  std::vector<ExactNumber> exact;
  for (const double number : numbers) exact.push_back(MakeExact(number));
  return exact;
}

BlockKind KindOf(uint64_t random) {
  const size_t type = random % (std::size(kAllValueTypes) + 1);
  if (type == std::size(kAllValueTypes)) return {};
  return {.raw = kAllValueTypes[type]};
}

// Doubles of random widths and exponents; some blocks are mostly zeros, or values of a small type.
std::vector<double> RandomNumbers(std::mt19937_64& random) {
  std::vector<double> numbers(1 + random() % kBlockSlots);
  const uint64_t zeros = random() % 4;
  const int bits = 1 + static_cast<int>(random() % 53);
  const int spread = static_cast<int>(random() % 20) * static_cast<int>(random() % 5);
  const int centre = random() % 4 == 0 ? static_cast<int>(random() % 2000) - 1000 : -20;
  for (double& number : numbers) {
    if (zeros == 3 ? random() % 8 != 0 : random() % 8 < zeros) continue;
    const auto significand = static_cast<double>(random() >> (64 - bits));
    const int exponent = centre + static_cast<int>(random() % (spread + 1)) - bits;
    number = std::ldexp(random() % 2 == 0 ? significand : -significand, exponent);
    if (random() % 16 == 0) number = -std::ldexp(1.0, exponent);  // the edge of a width
  }
  return numbers;
}

TEST(NarrowBlock, DoublesHaveTheBytesOfTheDefinition) {
  std::mt19937_64 random(7);
  size_t fast = 0;
  for (int round = 0; round < 50'000; ++round) {
    const std::vector<double> numbers = RandomNumbers(random);
    const BlockKind kind = KindOf(random());
    NarrowBlock block;
    std::string bytes = "before";
    if (!block.Set(numbers) || !block.Write(kind, bytes)) {
      ASSERT_EQ(bytes, "before");
      continue;
    }
    ++fast;
    const std::string expected = Definition(Exact(numbers), kind);
    ASSERT_EQ(bytes, "before" + expected) << "round " << round;
    std::string_view rest = expected;
    NarrowBlock read;
    ASSERT_TRUE(read.Read(rest, kind, numbers.size())) << "round " << round;
    ASSERT_EQ(rest, "");
    std::vector<double> again(numbers.size());
    ASSERT_TRUE(read.ToDoubles(again.data()));
    ASSERT_EQ(again, numbers) << "round " << round;
    for (const double number : again) ASSERT_FALSE(number == 0.0 && std::signbit(number));
  }
  EXPECT_GT(fast, 25'000u);
}

TEST(NarrowBlock, SlotsHaveTheBytesOfTheDefinition) {
  std::mt19937_64 random(8);
  size_t fast = 0;
  size_t read_fast = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<Int128> slots(1 + random() % kBlockSlots);
    const int bits = 1 + static_cast<int>(random() % 64);
    const int shift = static_cast<int>(random() % 50);
    const int lsb = random() % 2 == 0 ? 0 : static_cast<int>(random() % 300) - 200;
    for (Int128& slot : slots) {
      slot = static_cast<Int128>(static_cast<int64_t>(random()) >> (64 - bits)) << shift;
    }
    const BlockKind kind = KindOf(random());
    NarrowBlock block;
    std::string bytes;
    if (!block.Set(slots, lsb) || !block.Write(kind, bytes)) continue;
    ++fast;
    std::vector<ExactNumber> numbers;
    for (const Int128 slot : slots) numbers.push_back(MakeExact(slot, lsb));
    ASSERT_EQ(bytes, Definition(numbers, kind)) << "round " << round;
    std::string_view rest = bytes;
    NarrowBlock read;
    if (!read.Read(rest, kind, slots.size())) continue;  // raw floats beyond the range of doubles
    ++read_fast;
    for (size_t i = 0; i < slots.size(); ++i) {
      const ExactNumber again = MakeExact(read.unit(i), read.lsb());
      ASSERT_TRUE(ToWideInteger(again) == ToWideInteger(numbers[i]));
    }
  }
  EXPECT_GT(fast, 15'000u);
  EXPECT_GT(read_fast, fast * 9 / 10);
}

// What is read is canonical, or left to the definition to refuse or accept.
TEST(NarrowBlock, ReadsOnlyWhatTheDefinitionReads) {
  std::mt19937_64 random(9);
  size_t read_fast = 0;
  for (int round = 0; round < 100'000; ++round) {
    const std::vector<double> numbers = RandomNumbers(random);
    const BlockKind kind = KindOf(random());
    std::string bytes = Definition(Exact(numbers), kind);
    for (uint64_t flips = random() % 3; flips > 0; --flips) {
      bytes[random() % std::min<size_t>(bytes.size(), random() % 2 == 0 ? 6 : 600)] ^=
          static_cast<char>(1 << (random() % 8));
    }
    bytes.resize(bytes.size() - (random() % 8 == 0 ? 1 : 0));
    std::string_view fast_rest = bytes;
    std::string_view rest = bytes;
    NarrowBlock block;
    std::vector<ExactNumber> exact(numbers.size());
    const bool fast = block.Read(fast_rest, kind, numbers.size());
    const absl::Status defined = ReadBlock(rest, kind, exact);
    if (!fast) {
      ASSERT_EQ(fast_rest, bytes) << "nothing is taken";
      continue;
    }
    ++read_fast;
    ASSERT_TRUE(defined.ok()) << "round " << round << ": " << defined;
    ASSERT_EQ(fast_rest, rest);
    for (size_t i = 0; i < exact.size(); ++i) {
      ASSERT_TRUE(ToWideInteger(MakeExact(block.unit(i), block.lsb())) == ToWideInteger(exact[i]));
    }
  }
  EXPECT_GT(read_fast, 30'000u);
}

TEST(NarrowBlock, LeavesTheOthersToTheDefinition) {
  NarrowBlock block;
  EXPECT_FALSE(block.Set(std::vector<double>{1.0, 0x1p-70})) << "far apart";
  EXPECT_FALSE(block.Set(std::vector<double>{0x1p100, 0x1p-1074})) << "not a zero";
  EXPECT_FALSE(block.Set(std::vector<double>{0x1p-1060})) << "below the range";
  std::vector<Int128> slots = {Int128{1} << 62, 1};
  EXPECT_FALSE(block.Set(slots, 0)) << "63 bits";
  slots = {(Int128{1} << 62) - 1, -1};
  EXPECT_TRUE(block.Set(slots, 0));
  std::vector<double> out(2);
  EXPECT_FALSE(block.ToDoubles(out.data())) << "62 bits";
}

}  // namespace
}  // namespace sparseagg

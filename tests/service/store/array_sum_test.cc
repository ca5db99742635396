#include "service/store/checksums/array_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/escaping.h"

namespace sparseagg {
namespace {

ArraySum OfPieces(std::string_view bytes, size_t step, ArraySummer& summer) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
    summer.Append(bytes.substr(0, step));
  }
  return summer.Finish();
}

// Computed by xxhsum -H3 of xxHash 0.8.1.
TEST(ArraySumTest, IsThatOfTheReference) {
  const ArraySum sum = SumOf("123456789");
  EXPECT_EQ(sum.bytes, 9u);
  EXPECT_EQ(sum.xxh3, 0x72dcb18b67a17dffull);
  EXPECT_EQ(SumOf(std::string(100'000, 'a')).xxh3, 0x08f809ef04c54838ull);
}

// Computed by python-xxhash 4.1.0: xxh3_128_hexdigest with the seeds 0 and 1.
TEST(QuickDigestTest, IsThatOfTheReference) {
  EXPECT_EQ(absl::BytesToHexString(QuickDigest("123456789")),
            "33119477ede5dcd5e9716427681d5860e3ede0d7b3c8aeaef35243003decde66");
}

TEST(ArraySumTest, DoesNotDependOnThePieces) {
  ArraySummer summer;
  for (const size_t size : {0, 1, 100, 240, 241, 256, 257, 1000, 50'000}) {
    const std::string bytes(size, 'a');
    const ArraySum whole = SumOf(bytes);
    EXPECT_EQ(whole.bytes, size);
    for (const size_t step : {1, 7, 333, 8192}) {
      const ArraySum cut = OfPieces(bytes, step, summer);
      EXPECT_EQ(cut.bytes, size);
      EXPECT_EQ(cut.xxh3, whole.xxh3) << size << " bytes, " << step << " at a time";
    }
  }
}

TEST(ArraySumTest, DependsOnEveryBit) {
  std::string bytes(1000, 'a');
  const ArraySum whole = SumOf(bytes);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_NE(SumOf(bytes).xxh3, whole.xxh3);
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
}

}  // namespace
}  // namespace sparseagg

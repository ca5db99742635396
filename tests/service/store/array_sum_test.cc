#include "service/store/array_sum.h"

#include <gtest/gtest.h>

#include <string>

namespace sparseagg {
namespace {

// The check value in the catalogue of parametrised CRC algorithms.
TEST(ArraySumTest, IsThatOfTheCatalogue) {
  ArraySum sum;
  sum.Append("123456789");
  EXPECT_EQ(sum.bytes, 9u);
  EXPECT_EQ(sum.crc64, 0x995dc9bbdf1939faull);
}

TEST(ArraySumTest, DependsOnEveryBitAndNotOnThePieces) {
  std::string bytes(1000, 'a');
  ArraySum whole;
  whole.Append(bytes);
  for (const size_t step : {1, 7, 333}) {
    ArraySum cut;
    for (size_t at = 0; at < bytes.size(); at += step) {
      cut.Append(std::string_view(bytes).substr(at, step));
    }
    EXPECT_EQ(cut.bytes, whole.bytes);
    EXPECT_EQ(cut.crc64, whole.crc64);
  }
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
    ArraySum other;
    other.Append(bytes);
    EXPECT_NE(other.crc64, whole.crc64);
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
}

}  // namespace
}  // namespace sparseagg

#include "service/store/checksums/digest.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "service/store/checksums/crc32c.h"

namespace sparseagg {
namespace {

TEST(Sha256Test, GivesThePublishedDigestsOfFips180) {
  EXPECT_EQ(absl::BytesToHexString(Sha256().Bytes("abc").Finish()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(absl::BytesToHexString(Sha256().Finish()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256Test, DoesNotDependOnHowBytesAreCutIntoPieces) {
  EXPECT_EQ(Sha256().Bytes("a").Bytes("").Bytes("bc").Finish(), Sha256().Bytes("abc").Finish());
}

TEST(Sha256Test, KeepsTheBordersOfStringsApart) {
  EXPECT_NE(Sha256().String("ab").String("c").Finish(), Sha256().String("a").String("bc").Finish());
}

TEST(Sha256Test, HashesIntegersAsLittleEndianBytes) {
  EXPECT_EQ(Sha256().U32(0x64636261).Finish(), Sha256().Bytes("abcd").Finish());
  EXPECT_EQ(Sha256().U64(0x6867666564636261).Finish(), Sha256().Bytes("abcdefgh").Finish());
}

TEST(Crc32cTest, GivesTheCheckValuesOfRfc3720) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32cTest, ContinuesFromThePieceBefore) {
  const std::string data(1000, 'x');
  for (const size_t cut : {0, 1, 7, 64, 999, 1000}) {
    EXPECT_EQ(Crc32c(data.substr(cut), Crc32c(data.substr(0, cut))), Crc32c(data)) << cut;
  }
}

}  // namespace
}  // namespace sparseagg

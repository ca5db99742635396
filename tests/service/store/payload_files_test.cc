// Files that are written once and read as a whole. Allocations above a limit fail.
#include "service/store/files/payload_files.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/status.h"
#include "tests/support/allocation_limit.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

TEST(PayloadFilesTest, ReadsWhatItWrote) {
  const testing::TemporaryFolder folder;
  const auto files = PayloadFiles::Open(folder.path() + "/payloads").value();
  const std::string_view pieces[] = {"one ", "", "and two"};
  const uint64_t number = files->Write(pieces).value();
  EXPECT_EQ(files->Read(number, 11).value(), "one and two");
  EXPECT_EQ(ErrorReason(files->Read(number, 12).status()), "STORE_CORRUPT");
  EXPECT_EQ(ErrorReason(files->Read(number + 1, 11).status()), "STORE_CORRUPT");
}

TEST(PayloadFilesTest, AFileThatDoesNotFitInMemoryIsKept) {
  const testing::TemporaryFolder folder;
  const auto files = PayloadFiles::Open(folder.path() + "/payloads").value();
  const std::string payload(1 << 20, 'p');
  const std::string_view pieces[] = {payload};
  const uint64_t number = files->Write(pieces).value();
  testing::allocation_bytes_max = payload.size() - 1;
  const absl::Status scarce = files->Read(number, payload.size()).status();
  testing::allocation_bytes_max = std::numeric_limits<size_t>::max();
  EXPECT_EQ(scarce.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(scarce), "OUT_OF_MEMORY") << scarce;
  EXPECT_THAT(std::string(scarce.message()), ::testing::HasSubstr(files->PathOf(number)));
  EXPECT_EQ(files->Read(number, payload.size()).value(), payload);
}

}  // namespace
}  // namespace sparseagg

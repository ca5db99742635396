#include "service/store/files/direct_write.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "service/store/files/file_io.h"
#include "tests/support/interpose.h"
#include "tests/support/temporary_folder.h"

namespace {

// The number of direct writes that still succeed; a device with larger blocks refuses all of them.
int direct_writes_left = 1'000'000;

}  // namespace

extern "C" ssize_t writev(int fd, const struct iovec* parts, int count) {
  if ((fcntl(fd, F_GETFL) & O_DIRECT) != 0 && direct_writes_left-- <= 0) {
    errno = EINVAL;
    return -1;
  }
  return sparseagg::testing::Next<decltype(writev)>("writev")(fd, parts, count);
}

namespace sparseagg {
namespace {

std::vector<std::string_view> Pieces(std::string_view bytes, size_t size) {
  std::vector<std::string_view> pieces;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(size, bytes.size()))) {
    pieces.push_back(bytes.substr(0, size));
  }
  return pieces;
}

std::string Written(const std::string& path, const std::vector<std::string_view>& pieces) {
  {
    const Descriptor fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
    EXPECT_EQ(WriteAllDirect(fd.get(), pieces), 0);
  }
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Sizes around a disk block and around the buffer, in pieces that match neither.
TEST(DirectWriteTest, AFileHasTheBytesOfAllPiecesWhateverTheirSize) {
  constexpr size_t kBuffer = size_t{1} << 20;
  const testing::TemporaryFolder folder;
  std::mt19937_64 random(3);
  std::string bytes(2 * kBuffer + 4097, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{4097},
                            kBuffer - 1, kBuffer, kBuffer + 1, 2 * kBuffer + 4096, bytes.size()}) {
    const std::string_view all = std::string_view(bytes).substr(0, size);
    for (const size_t piece : {size_t{8191}, 3 * kBuffer}) {
      EXPECT_TRUE(Written(folder.path() + "/file", Pieces(all, piece)) == all)
          << size << " bytes in pieces of " << piece;
    }
  }
}

TEST(DirectWriteTest, WhereThereIsNoDirectWriteThePageCacheServes) {
  const Descriptor fd(open("/proc/self/comm", O_WRONLY));
  ASSERT_NE(fcntl(fd.get(), F_SETFL, O_DIRECT), 0) << "this file takes direct writes: use another";
  const std::vector<std::string_view> pieces = {"direct"};
  EXPECT_EQ(WriteAllDirect(fd.get(), pieces), 0);
  std::ifstream file("/proc/self/comm");
  std::string name;
  EXPECT_TRUE(std::getline(file, name));
  EXPECT_EQ(name, "direct");
}

TEST(DirectWriteTest, AWriteThatTheDeviceRefusesAndAllAfterItGoThroughThePageCache) {
  const testing::TemporaryFolder folder;
  const std::string bytes(2'500'000, 'x');
  for (const int before : {0, 1, 2}) {
    direct_writes_left = before;
    EXPECT_TRUE(Written(folder.path() + "/file", {bytes}) == bytes) << before;
    EXPECT_EQ(direct_writes_left, -1);  // no further direct write was tried
  }
  direct_writes_left = 1'000'000;
}

TEST(DirectWriteTest, SaysWhyAWriteFailed) {
  const Descriptor full(open("/dev/full", O_WRONLY));
  const std::string bytes(10'000, 'x');
  const std::vector<std::string_view> pieces = {bytes};
  EXPECT_EQ(WriteAllDirect(full.get(), pieces), ENOSPC);
}

}  // namespace
}  // namespace sparseagg

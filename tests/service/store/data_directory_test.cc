#include "service/store/data_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>

#include "service/store/durable_store.h"
#include "sparse/status.h"
#include "tests/support/interpose.h"
#include "tests/support/temporary_folder.h"

namespace {

std::set<std::string> synced;

}  // namespace

extern "C" int fsync(int fd) {
  synced.insert(sparseagg::testing::PathOf(fd));
  return sparseagg::testing::Next<decltype(fsync)>("fsync")(fd);
}

namespace sparseagg {
namespace {

namespace fs = std::filesystem;

TEST(DataDirectoryTest, ItsOwnNameIsDurableAfterEveryOpening) {
  const testing::TemporaryFolder folder;
  const std::string directory = folder.path() + "/data";
  fs::create_directory_symlink(folder.path(), folder.path() + "/link");
  for (const std::string& name : {directory, directory + "/", folder.path() + "/link/data"}) {
    synced.clear();
    const auto opened = OpenDurableStore({.directory = name, .free_bytes_min = 0});
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_THAT(synced, ::testing::IsSupersetOf({fs::canonical(folder.path()).string(),
                                                 fs::canonical(directory).string()}))
        << name;
  }
}

// Also for root, whom such a file system allows to write and then says that there is no folder.
TEST(DataDirectoryTest, AFileSystemWithoutRoomForFilesIsNamed) {
  for (const std::string path : {"/proc", "/proc/data", "/proc/data/"}) {
    for (const absl::Status& refused :
         {DataDirectory::Check(path), DataDirectory::Take(path, 0).status()}) {
      EXPECT_EQ(ErrorReason(refused), "STORE_UNUSABLE");
      EXPECT_EQ(std::string(refused.message()),
                "cannot use the data directory " + path +
                    ": its file system has no room for files, as /proc and /sys have none");
    }
  }
}

}  // namespace
}  // namespace sparseagg

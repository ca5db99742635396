#include "service/store/data_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>

#include "service/store/durable_store.h"
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

}  // namespace
}  // namespace sparseagg

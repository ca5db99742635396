#include "service/store/files/data_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "base/status.h"
#include "service/store/durable_store.h"
#include "service/store/files/fatal.h"
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

// A directory that changes while a store has it open.
struct Change {
  const char* name;
  void (*make)(const std::string& directory);
};
constexpr Change kChanges[] = {
    {"directory deleted", [](const std::string& directory) { fs::remove_all(directory); }},
    {"files deleted",
     [](const std::string& directory) {
       for (const auto& entry : fs::directory_iterator(directory)) fs::remove_all(entry.path());
     }},
    {"log deleted", [](const std::string& directory) { fs::remove(directory + "/store.db-wal"); }},
    {"payloads deleted", [](const std::string& directory) { fs::remove(directory + "/payloads"); }},
    {"moved", [](const std::string& directory) { fs::rename(directory, directory + ".old"); }},
    {"replaced by a copy",
     [](const std::string& directory) {
       fs::rename(directory, directory + ".old");
       fs::copy(directory + ".old", directory, fs::copy_options::recursive);
     }},
    {"database replaced",
     [](const std::string& directory) {
       fs::copy_file(directory + "/store.db", directory + "/copy");
       fs::rename(directory + "/copy", directory + "/store.db");
     }},
    {"a folder made in its place",
     [](const std::string& directory) {
       fs::remove_all(directory);
       fs::create_directory(directory);
     }},
};

class ChangedDirectoryTest : public ::testing::TestWithParam<Change> {
 protected:
  absl::StatusOr<PutResult> Put(const std::string& contributor) {
    return store_->Put({.round = "rounds/r",
                        .contributor = contributor,
                        .update_id = "u",
                        .digest = std::string(32, 'd')},
                       {.headers = "h"});
  }

  const testing::TemporaryFolder folder_;
  const std::string directory_ = folder_.path() + "/data";
  std::unique_ptr<UpdateStore> store_ =
      OpenDurableStore({.directory = directory_, .free_bytes_min = 0}).value();
};

// The data would be lost with the process, although every write and sync succeeds.
TEST_P(ChangedDirectoryTest, EndsTheProcessBeforeAnythingIsAcknowledged) {
  ASSERT_TRUE(store_->OpenRound({.name = "rounds/r", .durability = Durability::kDurable}).ok());
  ASSERT_TRUE(Put("before").ok());
  store_->CheckStillPresent();
  GetParam().make(directory_);
  const auto ends = ::testing::ExitedWithCode(kStoreFailedExit);
  const std::string message = "while the server was running";
  EXPECT_EXIT(static_cast<void>(Put("after")), ends, message);
  EXPECT_EXIT(static_cast<void>(Put("before")), ends, message) << "a duplicate";
  EXPECT_EXIT(
      static_cast<void>(store_->OpenRound({.name = "o", .durability = Durability::kDurable})), ends,
      message);
  EXPECT_EXIT(static_cast<void>(store_->CloseRound("rounds/r", "")), ends, message);
  EXPECT_EXIT(store_->CheckStillPresent(), ends, message);
  EXPECT_TRUE(store_->OpenRound({.name = "m", .durability = Durability::kMemory}).ok());
}

INSTANTIATE_TEST_SUITE_P(Changes, ChangedDirectoryTest, ::testing::ValuesIn(kChanges),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

// This holds also for root: such a file system grants root the permission and then reports that the
// folder does not exist.
TEST(DataDirectoryTest, AFileSystemWithoutRoomForFilesIsNamed) {
  for (const std::string path : {"/proc", "/proc/data", "/proc/data/"}) {
    for (const absl::Status& refused :
         {DataDirectory::Check(path), DataDirectory::Take(path, 0).status()}) {
      EXPECT_EQ(ErrorReason(refused), "STORE_UNUSABLE");
      EXPECT_EQ(std::string(refused.message()),
                "cannot use the data directory " + path +
                    ": its file system cannot hold files, like /proc and /sys");
    }
  }
}

}  // namespace
}  // namespace sparseagg

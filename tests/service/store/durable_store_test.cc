// Properties of the durable store only: everything acknowledged is there after a restart, however
// the process ended; damage is found; no files are left behind.
#include "service/store/durable_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/store/database.h"
#include "service/store/files/fatal.h"
#include "service/store/store_errors.h"
#include "tests/support/effort.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

namespace fs = std::filesystem;
using testing::Effort;
using testing::TemporaryFolder;

constexpr size_t kInlineBytesMax = size_t{128} << 10;

// Returns bytes that only this contributor sends.
std::string PayloadOf(const std::string& contributor, size_t bytes) {
  std::string payload;
  while (payload.size() < bytes) absl::StrAppend(&payload, contributor, "|");
  payload.resize(bytes);
  return payload;
}

std::string FileContent(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

using Updates = std::map<std::string, std::string>;  // payload by contributor

class DurableStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { Reopen(); }
  void Reopen() {
    store_.reset();
    auto opened = OpenDurableStore({.directory = folder_.path(), .free_bytes_min = 0});
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  void OpenRound(const std::string& name = "rounds/r") {
    const absl::Status opened = store_->OpenRound(
        {.name = name, .durability = Durability::kDurable, .description = "what it is"});
    ASSERT_TRUE(opened.ok()) << opened;
  }
  absl::StatusOr<PutResult> Put(const std::string& contributor, size_t bytes,
                                const std::string& round = "rounds/r") {
    const std::string payload = PayloadOf(contributor, bytes);
    const std::string_view pieces[] = {std::string_view(payload).substr(0, bytes / 3),
                                       std::string_view(payload).substr(bytes / 3)};
    return store_->Put({.round = round,
                        .contributor = contributor,
                        .update_id = "u",
                        .weight = 0.5f,
                        .digest = std::string(32, 'd')},
                       {.headers = "headers of " + contributor, .payload = pieces});
  }
  Updates Read(const std::string& round = "rounds/r") {
    Updates updates;
    const absl::Status read = store_->ReadUpdates(
        round, [&](const UpdateRecord& record, std::string_view headers, std::string_view payload) {
          EXPECT_EQ(headers, "headers of " + record.contributor);
          EXPECT_EQ(record.weight, 0.5f);
          EXPECT_TRUE(updates.emplace(record.contributor, payload).second);
          return absl::OkStatus();
        });
    EXPECT_TRUE(read.ok()) << read;
    return updates;
  }
  std::vector<fs::path> PayloadFiles() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_.path() + "/payloads")) {
      files.push_back(entry.path());
    }
    return files;
  }
  // Returns whether any file of the data directory contains `text`.
  bool DiskHolds(const std::string& text) const {
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file() && FileContent(entry.path()).find(text) != std::string::npos) {
        return true;
      }
    }
    return false;
  }

  TemporaryFolder folder_;
  std::unique_ptr<UpdateStore> store_;
};

TEST_F(DurableStoreTest, HasAfterARestartWhatItAccepted) {
  OpenRound();
  const Updates sent = {{"empty", ""},
                        {"small", PayloadOf("small", 1000)},
                        {"edge", PayloadOf("edge", kInlineBytesMax)},
                        {"large", PayloadOf("large", kInlineBytesMax + 1)}};
  for (const auto& [contributor, payload] : sent) {
    ASSERT_TRUE(Put(contributor, payload.size()).ok());
  }
  EXPECT_EQ(PayloadFiles().size(), 1u);
  Reopen();
  const std::vector<RoundRecord> rounds = store_->Rounds();
  ASSERT_EQ(rounds.size(), 1u);
  EXPECT_EQ(rounds[0].name, "rounds/r");
  EXPECT_EQ(rounds[0].description, "what it is");
  EXPECT_EQ(rounds[0].phase, RoundPhase::kOpen);
  EXPECT_EQ(Read(), sent);
  EXPECT_EQ(Put("small", 1000)->outcome, PutOutcome::kDuplicate);
  EXPECT_EQ(Put("another", 10)->record.sequence, 5u);
}

TEST_F(DurableStoreTest, GoesThroughTheLifeOfARoundWithARestartAfterEachStep) {
  OpenRound();
  ASSERT_TRUE(Put("a", 10).ok());
  ASSERT_TRUE(Put("b", 200'000).ok());
  Reopen();
  EXPECT_EQ(store_->CloseRound("rounds/r", "sealed")->size(), 2u);
  Reopen();
  EXPECT_EQ(store_->Rounds()[0].phase, RoundPhase::kClosed);
  EXPECT_EQ(store_->Rounds()[0].details, "sealed");
  EXPECT_EQ(ErrorReason(Put("late", 10).status()), "ROUND_NOT_OPEN");
  EXPECT_EQ(Read().size(), 2u);
  const std::string result = PayloadOf("result", 300'000);
  const std::string_view pieces[] = {result};
  ASSERT_TRUE(store_->PublishRound("rounds/r", "published", pieces, false).ok());
  Reopen();
  EXPECT_EQ(store_->Rounds()[0].phase, RoundPhase::kPublished);
  EXPECT_EQ(store_->Rounds()[0].details, "published");
  EXPECT_EQ(store_->ReadResult("rounds/r").value(), result);
  EXPECT_EQ(Put("a", 10)->outcome, PutOutcome::kDuplicate);
  EXPECT_EQ(PayloadFiles().size(), 1u);  // the result's
  ASSERT_TRUE(store_->EraseRound("rounds/r").ok());
  ASSERT_TRUE(store_->EraseLeftovers().ok());
  Reopen();
  EXPECT_TRUE(store_->Rounds().empty());
  EXPECT_TRUE(PayloadFiles().empty());
}

TEST_F(DurableStoreTest, KeepsAnAbortedRoundWithoutItsUpdates) {
  OpenRound();
  ASSERT_TRUE(Put("a", 10).ok());
  ASSERT_TRUE(Put("b", 200'000).ok());
  ASSERT_TRUE(store_->AbortRound("rounds/r", "why").ok());
  ASSERT_TRUE(store_->ErasePayloads("rounds/r").ok());
  EXPECT_TRUE(PayloadFiles().empty());
  Reopen();
  EXPECT_EQ(store_->Rounds()[0].phase, RoundPhase::kAborted);
  EXPECT_EQ(store_->Rounds()[0].details, "why");
  EXPECT_FALSE(store_->Find("rounds/r", "a").has_value());
}

// An abort that failed halfway once left a round that was open for the engine and closed for the
// store.
TEST_F(DurableStoreTest, AbortsARoundWhoseUpdatesTheFullDiskKeeps) {
  OpenRound();
  ASSERT_TRUE(Put("a", 10).ok());
  ASSERT_TRUE(Put("b", 200'000).ok());
  int transactions = 0;
  bool full = true;
  store_.reset();
  store_ = *OpenDurableStore({.directory = folder_.path(),
                              .free_bytes_min = 0,
                              .failpoints = {[&](Failpoint point) {
                                const bool begins = point == Failpoint::kTransactionBegun;
                                // The transactions of the start and of the round's row succeed.
                                return begins && ++transactions > 2 && full ? StoreFull()
                                                                            : absl::OkStatus();
                              }}});
  ASSERT_TRUE(store_->AbortRound("rounds/r", "why").ok());
  EXPECT_EQ(store_->Rounds()[0].phase, RoundPhase::kAborted);
  EXPECT_EQ(ErrorReason(Put("late", 10).status()), "ROUND_NOT_OPEN");
  EXPECT_EQ(ErrorReason(store_->ErasePayloads("rounds/r")), "STORE_FULL");
  EXPECT_EQ(PayloadFiles().size(), 1u);
  full = false;
  EXPECT_TRUE(store_->ErasePayloads("rounds/r").ok());
  EXPECT_TRUE(PayloadFiles().empty());
}

TEST_F(DurableStoreTest, StartsOnAFullDiskByItsReserve) {
  OpenRound();
  ASSERT_TRUE(Put("a", 10).ok());
  const uint64_t before = store_->Epoch().epoch;
  const std::string lock = folder_.path() + "/LOCK";
  const auto full_disk = [&](Failpoint point) {
    const bool has_room = fs::file_size(lock) == 0;
    return point == Failpoint::kRowsWritten && !has_room ? StoreFull() : absl::OkStatus();
  };
  store_.reset();
  auto opened = OpenDurableStore(
      {.directory = folder_.path(), .free_bytes_min = 0, .failpoints = {full_disk}});
  ASSERT_TRUE(opened.ok()) << opened.status();
  store_ = *std::move(opened);
  EXPECT_EQ(store_->Epoch().epoch, before + 1);
  EXPECT_EQ(Put("a", 10)->outcome, PutOutcome::kDuplicate);
  EXPECT_GT(fs::file_size(lock), 0u) << "for the next start, since there is room";
  EXPECT_EQ(ErrorReason(Put("b", 10).status()), "STORE_FULL");
}

TEST_F(DurableStoreTest, LeavesNoByteOfAnUpdateBehind) {
  OpenRound();
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(Put(absl::StrCat("contributor", i), 5000).ok());
  ASSERT_TRUE(Put("contributor-large", 200'000).ok());
  ASSERT_TRUE(DiskHolds("contributor7|contributor7|"));
  ASSERT_TRUE(store_->CloseRound("rounds/r", "").ok());
  ASSERT_TRUE(store_->PublishRound("rounds/r", "", {}, false).ok());
  ASSERT_TRUE(store_->ErasePayloads("rounds/r").ok());
  EXPECT_FALSE(DiskHolds("contributor7|contributor7|"));
  EXPECT_FALSE(DiskHolds("contributor-large|"));
}

TEST_F(DurableStoreTest, DeletesFilesThatNoRowNames) {
  OpenRound();
  ASSERT_TRUE(Put("kept", 200'000).ok());
  std::ofstream(folder_.path() + "/payloads/999") << "left by a crash";
  Reopen();
  ASSERT_EQ(PayloadFiles().size(), 1u);
  EXPECT_EQ(Read()["kept"], PayloadOf("kept", 200'000));
  ASSERT_TRUE(Put("next", 200'000).ok());
  EXPECT_EQ(PayloadFiles().size(), 2u);
}

TEST_F(DurableStoreTest, IsHeldByOneProcess) {
  const auto second = OpenDurableStore({.directory = folder_.path()});
  EXPECT_EQ(ErrorReason(second.status()), "STORE_IN_USE");
}

TEST_F(DurableStoreTest, IsNotReadByAnEarlierVersion) {
  store_.reset();
  {
    auto database = Database::Open(folder_.path() + "/store.db");
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE((*database)->Run("PRAGMA user_version=4").ok());
  }
  const auto opened = OpenDurableStore({.directory = folder_.path()});
  EXPECT_EQ(ErrorReason(opened.status()), "STORE_VERSION");
}

// A missing row fails no checksum; the gap in the sequence numbers shows that an update is missing.
TEST_F(DurableStoreTest, NoticesAnUpdateThatIsMissing) {
  for (const char* table : {"updates", "contents"}) {
    const std::string name = absl::StrCat("rounds/", table);
    OpenRound(name);
    for (const char* contributor : {"a", "b", "c"}) ASSERT_TRUE(Put(contributor, 10, name).ok());
    store_.reset();
    {
      auto database = Database::Open(folder_.path() + "/store.db");
      ASSERT_TRUE(database.ok());
      const std::string second =
          "SELECT u.id FROM updates u JOIN rounds r ON r.id = u.round "
          "WHERE u.contributor = 'b' AND r.name = '" +
          name + "'";
      const std::string gone =
          absl::StrCat("DELETE FROM ", std::string(table), " WHERE id IN (", second, ")");
      ASSERT_TRUE((*database)->Run(gone.c_str()).ok());
    }
    Reopen();
  }
  OpenRound("rounds/whole");
  std::map<std::string, std::string> damage;
  for (const RoundRecord& round : store_->Rounds()) damage[round.name] = round.damage;
  EXPECT_EQ(damage["rounds/updates"], "an update is missing");
  EXPECT_EQ(damage["rounds/whole"], "");
  const absl::Status read =
      store_->ReadUpdates("rounds/contents", [](const auto&...) { return absl::OkStatus(); });
  EXPECT_EQ(ErrorReason(read), "STORE_CORRUPT") << read;
  EXPECT_THAT(std::string(read.message()), ::testing::HasSubstr("update of contributor \"b\""));
}

TEST_F(DurableStoreTest, TakesNoDirectoryThatItCannotWrite) {
  const auto opened = OpenDurableStore({.directory = "/proc/sparseagg"});
  EXPECT_EQ(ErrorReason(opened.status()), "STORE_UNUSABLE");
}

TEST_F(DurableStoreTest, RefusesUpdatesWhileTheDiskHasTooLittleRoomAndStillSeals) {
  OpenRound();
  ASSERT_TRUE(Put("a", 10).ok());
  store_.reset();
  auto opened =
      OpenDurableStore({.directory = folder_.path(), .free_bytes_min = uint64_t{1} << 60});
  ASSERT_TRUE(opened.ok());
  store_ = *std::move(opened);
  const auto refused = Put("b", 10);
  EXPECT_EQ(ErrorReason(refused.status()), "STORE_FULL");
  EXPECT_GT(RetryAfterMs(refused.status()), 0u);
  EXPECT_EQ(Put("a", 10)->outcome, PutOutcome::kDuplicate);
  EXPECT_TRUE(store_->CloseRound("rounds/r", "").ok());
}

TEST_F(DurableStoreTest, AShortageOfDescriptorsIsARefusal) {
  OpenRound("rounds/before");
  ASSERT_TRUE(Put("large", 200'000, "rounds/before").ok());
  OpenRound();
  std::vector<int> descriptors;
  for (int fd = open("/dev/null", O_RDONLY); fd >= 0; fd = open("/dev/null", O_RDONLY)) {
    descriptors.push_back(fd);
  }
  const auto refused = Put("large", 200'000);
  const auto accepted = Put("small", 1000);
  const absl::Status read =
      store_->ReadUpdates("rounds/before", [](const auto&...) { return absl::OkStatus(); });
  for (const int fd : descriptors) close(fd);
  EXPECT_EQ(ErrorReason(read), "STORE_BUSY") << read;  // nothing is lost
  EXPECT_EQ(Read("rounds/before").size(), 1u);
  EXPECT_EQ(ErrorReason(refused.status()), "STORE_BUSY");
  EXPECT_GT(RetryAfterMs(refused.status()), 0u);
  EXPECT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_TRUE(Put("large", 200'000).ok());
}

// A data directory that another user copied has lost nothing.
TEST_F(DurableStoreTest, AFileThatItMayNotReadIsNotDamaged) {
  OpenRound();
  ASSERT_TRUE(Put("large", 200'000).ok());
  const fs::path file = PayloadFiles().at(0);
  fs::permissions(file, fs::perms::none);
  const uid_t user = geteuid();
  if (user == 0) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  const absl::Status read =
      store_->ReadUpdates("rounds/r", [](const auto&...) { return absl::OkStatus(); });
  if (user == 0) {
    ASSERT_EQ(seteuid(0), 0);
  }
  EXPECT_EQ(ErrorReason(read), "STORE_UNUSABLE") << read;
  fs::permissions(file, fs::perms::owner_read);
  EXPECT_EQ(Read().size(), 1u);
}

// After kill -9 at any moment, every acknowledged update is there, once, with its bytes.
TEST_F(DurableStoreTest, LosesNothingAcknowledgedToAKill) {
  const int kills = Effort("SPARSEAGG_KILLS", 12);
  constexpr int kThreads = 4;
  std::mt19937 random(1);
  size_t acknowledged = 0;
  for (int kill_number = 0; kill_number < kills; ++kill_number) {
    if (kill_number % 20 == 0) {  // reading everything back takes longer each time
      Reopen();
      ASSERT_TRUE(store_->EraseRound("rounds/r").ok());
      OpenRound();
      store_.reset();
      acknowledged = 0;
    }
    int acks[2];
    ASSERT_EQ(pipe(acks), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(acks[0]);
      Reopen();
      std::vector<std::thread> threads;
      for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
          for (uint32_t i = 0;; ++i) {
            const uint32_t id = (kill_number * kThreads + t) * 1'000'000 + i;
            const size_t bytes = i % 8 == 0 ? 150'000 : 3000;
            if (!Put(absl::StrCat(id), bytes).ok()) _exit(1);
            if (write(acks[1], &id, sizeof(id)) != sizeof(id)) _exit(2);
          }
        });
      }
      pause();
      _exit(3);
    }
    close(acks[1]);
    std::vector<uint32_t> ids(1 + random() % 100);
    for (uint32_t& id : ids) ASSERT_EQ(read(acks[0], &id, sizeof(id)), ssize_t{sizeof(id)});
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << status;
    for (uint32_t id = 0; read(acks[0], &id, sizeof(id)) == ssize_t{sizeof(id)};) ids.push_back(id);
    close(acks[0]);
    Reopen();
    const Updates stored = Read();  // fails if a contributor occurs twice
    for (const uint32_t id : ids) {
      const std::string contributor = absl::StrCat(id);
      const size_t bytes = id % 1'000'000 % 8 == 0 ? 150'000 : 3000;
      const auto found = stored.find(contributor);
      ASSERT_NE(found, stored.end()) << "lost: " << contributor;
      EXPECT_EQ(found->second, PayloadOf(contributor, bytes));
    }
    acknowledged += ids.size();
    EXPECT_GE(stored.size(), acknowledged);
    store_.reset();
  }
}

// A flipped bit anywhere is found, unless it is in unused space.
TEST_F(DurableStoreTest, NeverReadsAFlippedBitAsData) {
  OpenRound();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Put(absl::StrCat("c", i), 700).ok());
  ASSERT_TRUE(Put("large", 140'000).ok());
  const Updates sent = Read();
  store_.reset();
  std::vector<fs::path> paths = PayloadFiles();
  paths.emplace_back(folder_.path() + "/store.db");
  std::mt19937_64 random(2);
  int found = 0;
  const int flips = Effort("SPARSEAGG_BIT_FLIPS", 150);
  for (int i = 0; i < flips; ++i) {
    const fs::path& path = paths[random() % paths.size()];
    const std::string before = FileContent(path);
    std::string after = before;
    after[random() % after.size()] ^= static_cast<char>(1 << random() % 8);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << after;
    auto opened = OpenDurableStore({.directory = folder_.path(), .free_bytes_min = 0});
    Updates read;
    bool damaged = !opened.ok();
    if (opened.ok()) {
      const std::vector<RoundRecord> rounds = (*opened)->Rounds();
      damaged = rounds.size() != 1 || !rounds[0].damage.empty();
      if (!damaged) {
        const absl::Status status = (*opened)->ReadUpdates(
            "rounds/r",
            [&](const UpdateRecord& record, std::string_view headers, std::string_view payload) {
              EXPECT_EQ(headers, "headers of " + record.contributor);
              read.emplace(record.contributor, payload);
              return absl::OkStatus();
            });
        damaged = !status.ok();
      }
    }
    if (damaged) {
      ++found;
    } else {
      EXPECT_EQ(read, sent) << path;
    }
    opened = absl::UnknownError("closed");
    std::ofstream(path, std::ios::binary | std::ios::trunc) << before;
    fs::remove(folder_.path() + "/store.db-wal");
  }
  EXPECT_GT(found, flips / 4);
  Reopen();
  EXPECT_EQ(Read(), sent);
}

}  // namespace
}  // namespace sparseagg

// The real server uses a disk that fails (disk_faults.cc). No receipt is lost, nothing is half
// done.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "client/client.h"
#include "service/store/files/fatal.h"
#include "tests/e2e/server_process.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_client.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using ::testing::HasSubstr;
using testing::ServerProcess;
using ::testing::StartsWith;
using testing::TestClient;
using testing::VectorEntries;

constexpr int64_t kSize = 1'000'000;

class DiskFaultTest : public ::testing::Test {
 protected:
  std::string data() const { return folder_.path() + "/data"; }
  std::string full_flag() const { return folder_.path() + "/full"; }
  std::vector<std::string> Arguments() const {
    return {"--data-dir", data(), "--store-free-bytes-min", "0"};
  }
  std::string stuck_flag() const { return folder_.path() + "/stuck"; }
  // Makes the disk full for files whose path contains `text`, until the flag is removed.
  void Fill(const std::string& text) const { Raise(full_flag(), text); }
  // Makes syncs of such files hang.
  void Block(const std::string& text) const { Raise(stuck_flag(), text); }
  static void Raise(const std::string& flag, const std::string& text) {
    std::ofstream(flag + ".tmp") << text;
    std::filesystem::rename(flag + ".tmp", flag);
  }
  // `sync_fails` is the number of the server's sync that fails, or 0.
  std::unique_ptr<ServerProcess> StartOnFaultyDisk(
      int sync_fails = 0, const std::vector<std::string>& more_arguments = {}) const {
    setenv("LD_PRELOAD", SPARSEAGG_DISK_FAULTS, 1);
    setenv("SPARSEAGG_FAULT_DIR", data().c_str(), 1);
    setenv("SPARSEAGG_FULL_FLAG", full_flag().c_str(), 1);
    setenv("SPARSEAGG_STUCK_FLAG", stuck_flag().c_str(), 1);
    if (sync_fails > 0) setenv("SPARSEAGG_SYNC_FAILS", std::to_string(sync_fails).c_str(), 1);
    std::vector<std::string> arguments = Arguments();
    arguments.insert(arguments.end(), more_arguments.begin(), more_arguments.end());
    auto server = std::make_unique<ServerProcess>(arguments);
    for (const char* name : {"LD_PRELOAD", "SPARSEAGG_FAULT_DIR", "SPARSEAGG_FULL_FLAG",
                             "SPARSEAGG_STUCK_FLAG", "SPARSEAGG_SYNC_FAILS"}) {
      unsetenv(name);
    }
    return server;
  }
  // Client i adds 1 to coordinate i, and to `more` coordinates that only this client has.
  v1::SubmitUpdateRequest UpdateOf(int64_t client, int more = 0) const {
    std::vector<int64_t> rows = {client};
    for (int i = 0; i < more; ++i) rows.push_back(1000 + client * 50'000 + i);
    return testing::VectorUpdate(
        "rounds/r", std::to_string(client),
        VectorEntries("t", kSize, rows, std::vector<float>(rows.size(), 1.0f)));
  }

  testing::TemporaryFolder folder_;
};

TEST_F(DiskFaultTest, AFailedSyncEndsTheServerBeforeTheReceiptAndLosesNone) {
  int failed = 0;
  // The first syncs are those of the start, whose number depends on SQLite.
  for (int sync_fails = 1; sync_fails <= 40; sync_fails += 3) {
    std::filesystem::remove_all(data());
    std::vector<int64_t> acknowledged;
    {
      const auto server = StartOnFaultyDisk(sync_fails);
      if (!server->address().empty()) {
        TestClient client(testing::NewChannel(server->address()));
        absl::Status status = client.Create(testing::VectorRound("t", kSize), "r").status();
        // Every third update is large enough for a file of its own.
        for (int64_t i = 0; status.ok() && i < 18; ++i) {
          status = client.Submit(UpdateOf(i, i % 3 == 0 ? 20'000 : 0)).status();
          if (status.ok()) acknowledged.push_back(i);
        }
        if (!status.ok()) {
          EXPECT_TRUE(absl::IsUnavailable(status)) << status;
          EXPECT_EQ(server->Wait(), kStoreFailedExit);
          ++failed;
        }
      } else {
        EXPECT_EQ(server->Wait(), kStoreFailedExit) << server->log();
        ++failed;
      }
    }
    ServerProcess server(Arguments());
    ASSERT_FALSE(server.address().empty()) << server.log();
    TestClient client(testing::NewChannel(server.address()));
    for (const int64_t i : acknowledged) {
      const auto receipt = client.Submit(UpdateOf(i, i % 3 == 0 ? 20'000 : 0));
      ASSERT_TRUE(receipt.ok()) << "sync " << sync_fails << ": " << receipt.status();
      EXPECT_TRUE(receipt->duplicate()) << "sync " << sync_fails << " lost update " << i;
    }
  }
  EXPECT_GE(failed, 8);
}

TEST_F(DiskFaultTest, AFullDiskIsARefusalAndWorkGoesOnWhenThereIsRoomAgain) {
  const auto server = StartOnFaultyDisk();
  ASSERT_FALSE(server->address().empty()) << server->log();
  TestClient client(testing::NewChannel(server->address()));
  ASSERT_TRUE(client.Create(testing::VectorRound("t", kSize), "r").ok());
  ASSERT_TRUE(client.Submit(UpdateOf(1)).ok());
  ASSERT_TRUE(client.Submit(UpdateOf(2, 20'000)).ok());

  Fill("");
  for (const int more : {0, 20'000}) {
    const auto refused = client.Submit(UpdateOf(3, more));
    EXPECT_EQ(ErrorReason(refused.status()), "STORE_FULL") << refused.status();
    EXPECT_GT(RetryAfterMs(refused.status()), 0u);
  }
  EXPECT_EQ(ErrorReason(client.Create(testing::VectorRound("t", 9), "other").status()),
            "STORE_FULL");
  EXPECT_EQ(ErrorReason(client.Seal("rounds/r").status()), "STORE_FULL");
  EXPECT_TRUE(client.Submit(UpdateOf(1))->duplicate());  // needs no room
  std::filesystem::remove(full_flag());
  EXPECT_TRUE(client.Submit(UpdateOf(3)).ok());
  const auto published = client.Publish("rounds/r");
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(published->contributors(), 3u);
}

TEST_F(DiskFaultTest, ASealedRoundWhoseResultFindsNoRoomSaysSoUntilItIsPublished) {
  const auto server = StartOnFaultyDisk();
  ASSERT_FALSE(server->address().empty()) << server->log();
  TestClient client(testing::NewChannel(server->address()));
  ASSERT_TRUE(client.Create(testing::VectorRound("t", kSize), "r").ok());
  ASSERT_TRUE(client.Submit(UpdateOf(1, 20'000)).ok());
  EXPECT_EQ(client.Get("rounds/r")->stall(), "");
  Fill("/payloads/");
  ASSERT_TRUE(client.Seal("rounds/r").ok());
  while (client.Get("rounds/r")->stall().empty()) std::this_thread::yield();
  const auto stalled = client.Get("rounds/r");
  EXPECT_EQ(stalled->state(), v1::ROUND_STATE_SEALED);
  EXPECT_THAT(stalled->stall(), StartsWith("STORE_FULL: "));
  const auto waiting = client::Client::Connect(server->address());
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  const absl::Status late = (*waiting)->Wait("r", 300).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_THAT(std::string(late.message()),
              HasSubstr("was not published within 300 ms; STORE_FULL: "));
  std::filesystem::remove(full_flag());
  const auto published = (*waiting)->Wait("r", 60'000);
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(published->stall, "");
}

TEST_F(DiskFaultTest, ADataDirectoryThatIsDeletedEndsTheServerBeforeTheNextReceipt) {
  ServerProcess server(Arguments());
  ASSERT_FALSE(server.address().empty()) << server.log();
  TestClient client(testing::NewChannel(server.address()));
  ASSERT_TRUE(client.Create(testing::VectorRound("t", kSize), "r").ok());
  ASSERT_TRUE(client.Submit(UpdateOf(1)).ok());
  std::filesystem::remove_all(data());
  const auto refused = client.Submit(UpdateOf(2));
  EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
  EXPECT_EQ(server.Wait(), kStoreFailedExit);
  EXPECT_THAT(server.log(), HasSubstr("deleted or moved while the server was running"));
}

TEST_F(DiskFaultTest, ADataDirectoryThatIsMovedEndsAnIdleServer) {
  ServerProcess server(Arguments());
  ASSERT_FALSE(server.address().empty()) << server.log();
  std::filesystem::rename(data(), data() + ".moved");
  EXPECT_EQ(server.Wait(), kStoreFailedExit);
}

TEST_F(DiskFaultTest, ASealedRoundWaitsForRoomForItsResult) {
  const auto server = StartOnFaultyDisk();
  ASSERT_FALSE(server->address().empty()) << server->log();
  TestClient client(testing::NewChannel(server->address()));
  ASSERT_TRUE(client.Create(testing::VectorRound("t", kSize), "r").ok());
  for (int64_t i = 0; i < 15; ++i) ASSERT_TRUE(client.Submit(UpdateOf(i, 20'000)).ok());
  Fill("/payloads/");  // the result is too long for the database
  ASSERT_TRUE(client.Seal("rounds/r").ok());
  v1::WaitRoundRequest wait;
  wait.set_name("rounds/r");
  wait.mutable_timeout()->set_nanos(300'000'000);
  EXPECT_EQ(client.Wait(wait)->state(), v1::ROUND_STATE_SEALED);
  EXPECT_THAT(server->log(),
              HasSubstr("event=\"round waits\" round=rounds/r state=SEALED reason=STORE_FULL"));
  std::filesystem::remove(full_flag());
  const auto start = std::chrono::steady_clock::now();
  wait.clear_timeout();
  auto round = client.Wait(wait);
  while (round.ok() && round->state() == v1::ROUND_STATE_SEALED) round = client.Wait(wait);
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_EQ(round->state(), v1::ROUND_STATE_PUBLISHED) << round->failure();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(testing::ArrayOf<float>(client.Aggregate("rounds/r")->values()).size(), 15 * 20'001u);
}

// A stop does not wait for a disk that hangs or a result that takes minutes. The round continues
// after the next start.
TEST_F(DiskFaultTest, AStopEndsInTimeWhateverIsBeingPublished) {
  constexpr std::chrono::seconds kTimeout{3};
  {
    const auto server =
        StartOnFaultyDisk(0, {"--drain-delay-ms", "0", "--drain-timeout-ms",
                              std::to_string(std::chrono::milliseconds(kTimeout).count())});
    ASSERT_FALSE(server->address().empty()) << server->log();
    TestClient client(testing::NewChannel(server->address()));
    ASSERT_TRUE(client.Create(testing::VectorRound("t", kSize), "r").ok());
    for (int64_t i = 0; i < 3; ++i) ASSERT_TRUE(client.Submit(UpdateOf(i, 20'000)).ok());
    Block("/payloads/");
    ASSERT_TRUE(client.Seal("rounds/r").ok());
    const auto start = std::chrono::steady_clock::now();
    server->Signal(SIGTERM);
    EXPECT_EQ(server->Wait(), 0) << server->log();
    EXPECT_LE(std::chrono::steady_clock::now() - start, kTimeout);
    EXPECT_THAT(server->log(), HasSubstr("unfinished work was cut off"));
  }
  std::filesystem::remove(stuck_flag());
  const ServerProcess server(Arguments());
  TestClient client(testing::NewChannel(server.address()));
  v1::WaitRoundRequest wait;
  wait.set_name("rounds/r");
  const auto round = client.Wait(wait);
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_EQ(round->state(), v1::ROUND_STATE_PUBLISHED);
  EXPECT_EQ(testing::ArrayOf<float>(client.Aggregate("rounds/r")->values()).size(), 3 * 20'001u);
}

}  // namespace
}  // namespace sparseagg

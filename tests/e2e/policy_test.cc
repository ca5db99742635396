// Rounds end by their policy on a real server that is killed at the goal, before the deadline, or
// that is down at the deadline. Client i adds 1 at coordinate i, so the result shows who was
// counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/e2e/server_process.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_client.h"
#include "tests/support/effort.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::ServerProcess;
using testing::TestClient;
using testing::VectorEntries;
using testing::VectorUpdate;

constexpr int64_t kSize = 1'000'000;

class PolicyE2eTest : public ::testing::Test {
 protected:
  std::unique_ptr<ServerProcess> Start() {
    auto server = std::make_unique<ServerProcess>(
        std::vector<std::string>{"--data-dir", folder_.path(), "--store-free-bytes-min", "0"});
    EXPECT_FALSE(server->address().empty()) << server->log();
    return server;
  }
  static v1::SubmitUpdateRequest UpdateOf(const std::string& round, int64_t client) {
    return VectorUpdate(round, std::to_string(client), VectorEntries("t", kSize, {client}, {1}));
  }
  static absl::StatusOr<v1::Round> WaitForEnd(TestClient& client, const std::string& round) {
    v1::WaitRoundRequest wait;
    wait.set_name(round);
    return client.Wait(wait);
  }
  static std::set<int64_t> CountedOnce(TestClient& client, const std::string& round) {
    const auto answer = client.Aggregate(round);
    EXPECT_TRUE(answer.ok()) << answer.status();
    if (!answer.ok()) return {};
    EXPECT_THAT(testing::ArrayOf<float>(answer->values()), Each(1.0f));
    const auto indices = testing::ArrayOf<int64_t>(answer->indices());
    return {indices.begin(), indices.end()};
  }

  testing::TemporaryFolder folder_;
};

TEST_F(PolicyE2eTest, AKillAroundTheGoalCutsExactlyThere) {
  const int kills = testing::Effort("SPARSEAGG_SERVER_KILLS", 5);
  constexpr uint64_t kGoal = 60;
  std::mt19937 random(5);
  auto server = Start();
  for (int run = 0; run < kills; ++run) {
    const std::string id = absl::StrCat("r", run);
    const std::string name = "rounds/" + id;
    {
      v1::RoundSpec spec = testing::VectorRound("t", kSize);
      spec.mutable_policy()->set_goal_contributors(kGoal);
      TestClient client(testing::NewChannel(server->address()));
      ASSERT_TRUE(client.Create(spec, id).ok());
    }
    std::vector<std::set<int64_t>> acknowledged(4);
    std::atomic<uint64_t> total = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        TestClient client(testing::NewChannel(server->address()));
        for (int64_t i = t;; i += 4) {
          if (!client.Submit(UpdateOf(name, i)).ok()) break;
          acknowledged[t].insert(i);
          ++total;
          total.notify_all();
        }
        total += kGoal;  // other threads need not wait for this one
        total.notify_all();
      });
    }
    const uint64_t enough = kGoal - 3 + random() % 4;
    for (uint64_t seen = total; seen < enough; seen = total) total.wait(seen);
    server->Signal(SIGKILL);
    server->Wait();
    for (std::thread& thread : threads) thread.join();
    server = Start();
    TestClient client(testing::NewChannel(server->address()));
    // This is the number of contributors that are missing for the goal.
    for (int64_t i = 0; i < static_cast<int64_t>(2 * kGoal); ++i) {
      const auto receipt = client.Submit(UpdateOf(name, i));
      if (receipt.ok()) {
        acknowledged[0].insert(i);
      } else {
        EXPECT_EQ(ErrorReason(receipt.status()), "ROUND_NOT_OPEN") << receipt.status();
      }
    }
    const auto round = WaitForEnd(client, name);
    ASSERT_TRUE(round.ok()) << round.status();
    EXPECT_EQ(round->state(), v1::ROUND_STATE_PUBLISHED) << round->failure();
    EXPECT_EQ(round->seal_reason(), v1::SEAL_REASON_GOAL);
    EXPECT_EQ(round->contributors(), kGoal);
    std::set<int64_t> all;
    for (const auto& some : acknowledged) all.insert(some.begin(), some.end());
    EXPECT_EQ(CountedOnce(client, name), all);
  }
}

TEST_F(PolicyE2eTest, ADeadlineThatPassesWhileTheServerIsDownClosesTheRoundsAtTheStart) {
  auto server = Start();
  for (const auto& [id, minimum] : {std::pair("enough", 1), std::pair("few", 2)}) {
    v1::RoundSpec spec = testing::VectorRound("t", kSize);
    spec.mutable_policy()->set_min_contributors(minimum);
    spec.mutable_policy()->mutable_open_for()->set_seconds(1);
    TestClient client(testing::NewChannel(server->address()));
    ASSERT_TRUE(client.Create(spec, id).ok());
    ASSERT_TRUE(client.Submit(UpdateOf(absl::StrCat("rounds/", id), 7)).ok());
  }
  server->Signal(SIGKILL);
  server->Wait();
  server = Start();
  TestClient client(testing::NewChannel(server->address()));
  const auto enough = WaitForEnd(client, "rounds/enough");
  ASSERT_TRUE(enough.ok()) << enough.status();
  EXPECT_EQ(enough->seal_reason(), v1::SEAL_REASON_DEADLINE);
  EXPECT_EQ(enough->manifest().seal_reason(), v1::SEAL_REASON_DEADLINE);
  EXPECT_EQ(CountedOnce(client, "rounds/enough"), std::set<int64_t>{7});
  const auto few = WaitForEnd(client, "rounds/few");
  EXPECT_EQ(few->state(), v1::ROUND_STATE_ABORTED);
  EXPECT_THAT(few->failure(), HasSubstr("INSUFFICIENT_CONTRIBUTORS"));
}

TEST_F(PolicyE2eTest, EveryStartIsANewEpochAndNamesAreRememberedOverIt) {
  auto server = Start();
  v1::StoreEpoch first;
  {
    TestClient client(testing::NewChannel(server->address()));
    ASSERT_TRUE(client.Create(testing::VectorRound("t", kSize), "r").ok());
    const auto receipt = client.Submit(UpdateOf("rounds/r", 1));
    ASSERT_TRUE(receipt.ok()) << receipt.status();
    first = receipt->epoch();
    EXPECT_EQ(first.epoch(), 1u);
    EXPECT_EQ(client.Info()->epoch().store_id(), first.store_id());
    ASSERT_TRUE(client.Publish("rounds/r").ok());
    ASSERT_TRUE(client.Delete("rounds/r").ok());
  }
  server->Signal(SIGKILL);
  server->Wait();
  server = Start();
  TestClient client(testing::NewChannel(server->address()));
  EXPECT_EQ(client.Info()->epoch().store_id(), first.store_id());
  EXPECT_EQ(client.Info()->epoch().epoch(), 2u);
  const absl::Status late = client.Submit(UpdateOf("rounds/r", 1)).status();
  EXPECT_EQ(ErrorReason(late), "ROUND_EXPIRED") << late;
  EXPECT_EQ(ErrorMetadata(late)["ended"], "PUBLISHED");
  EXPECT_EQ(ErrorReason(client.Create(testing::VectorRound("t", kSize), "r").status()),
            "ROUND_EXISTS");
  EXPECT_TRUE(client.Delete("rounds/r").ok());
}

TEST_F(PolicyE2eTest, KeptUpdatesGiveTheResultAgainOnlineAndOffline) {
  auto server = Start();
  {
    v1::RoundSpec spec = testing::VectorRound("t", kSize);
    spec.set_keep_updates_until_deleted(true);
    TestClient client(testing::NewChannel(server->address()));
    ASSERT_TRUE(client.Create(spec, "r").ok());
    for (int64_t i = 0; i < 20; ++i) ASSERT_TRUE(client.Submit(UpdateOf("rounds/r", i)).ok());
    const auto round = client.Publish("rounds/r");
    ASSERT_TRUE(round.ok()) << round.status();
    v1::VerifyRoundRequest request;
    request.set_name("rounds/r");
    v1::VerifyRoundResponse verified;
    const auto context = testing::NewContext();
    const auto status = client.stub().VerifyRound(context.get(), request, &verified);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(verified.contributors(), 20u);
    EXPECT_EQ(verified.result_digest(), round->manifest().result_digest());
  }
  server->Signal(SIGKILL);
  server->Wait();
  const testing::ProgramRun check = testing::RunProgram("store check " + folder_.path());
  EXPECT_EQ(check.exit_code, 0) << check.output;
  EXPECT_THAT(check.output, HasSubstr("1 rounds, 0 damaged"));
}

}  // namespace
}  // namespace sparseagg

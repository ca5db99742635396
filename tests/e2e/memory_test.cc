// The memory of the server's process does not grow with the number of contributors, because updates
// are folded as they arrive, and only the names of counted contributors are kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "tests/e2e/server_process.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_client.h"
#include "tests/support/effort.h"

namespace sparseagg {
namespace {

using testing::VectorEntries;
using testing::VectorUpdate;

constexpr int64_t kRows = 8'000'000;
constexpr int64_t kEntries = 60'000;  // of an update: the smaller load is folded in batches, too

std::vector<v1::SubmitUpdateRequest> MakeUpdates(const std::string& round) {
  constexpr int kDistinct = 100;  // both loads send all of them: the result is the same
  std::mt19937_64 random(1);
  std::vector<v1::SubmitUpdateRequest> updates;
  for (int i = 0; i < kDistinct; ++i) {
    std::set<int64_t> rows;
    while (rows.size() < kEntries) rows.insert(static_cast<int64_t>(random() % kRows));
    updates.push_back(VectorUpdate(
        round, "",
        VectorEntries("t", kRows, {rows.begin(), rows.end()}, std::vector<float>(kEntries, 0.5f))));
  }
  return updates;
}

uint64_t ResidentKilobytes(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  const std::string key = "VmRSS:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::stoull(line.substr(key.size()));
  }
  return 0;
}

// Returns the memory of a server's process after every hundredth update, while it sums the updates
// of `contributors` contributors.
std::vector<uint64_t> KilobytesOverTime(int contributors) {
  // Folding may fall behind this client on a busy machine; this limit bounds the waiting updates.
  testing::ServerProcess server({"--staging-bytes-max=16777216"});
  testing::TestClient client(testing::NewChannel(server.address()));
  v1::RoundSpec spec;
  *spec.add_tensors() = testing::VectorSpec("t", kRows);
  const std::string round = client.Create(spec)->name();
  std::vector<v1::SubmitUpdateRequest> updates = MakeUpdates(round);
  std::vector<uint64_t> seen;
  for (int i = 0; i < contributors; ++i) {
    if (i % (contributors / 100) == 0) seen.push_back(ResidentKilobytes(server.pid()));
    v1::SubmitUpdateRequest& update = updates[static_cast<size_t>(i) % updates.size()];
    update.mutable_header()->set_contributor("contributor-" + std::to_string(i));
    update.mutable_header()->set_update_id("update-" + std::to_string(i));
    auto receipt = client.Submit(update);
    while (ErrorReason(receipt.status()) == "STAGING_FULL") receipt = client.Submit(update);
    EXPECT_TRUE(receipt.ok()) << receipt.status();
    if (!receipt.ok()) return {};
  }
  EXPECT_TRUE(client.Publish(round).ok());
  return seen;
}

uint64_t Median(std::vector<uint64_t> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The first thousands of updates fill the memory that allocators and folds keep. The peak is not
// compared, because with more updates it is larger by chance alone.
TEST(MemoryTest, DoesNotGrowWithTheNumberOfContributors) {
  const int contributors = testing::Effort("SPARSEAGG_MEMORY_CONTRIBUTORS", 10'000);
  const std::vector<uint64_t> seen = KilobytesOverTime(contributors);
  ASSERT_GE(seen.size(), 100u);
  const uint64_t early = Median({seen.begin() + 30, seen.begin() + 50});
  const uint64_t late = Median({seen.begin() + 80, seen.begin() + 100});
  std::cout << "after 40 % of " << contributors << " contributors: " << early / 1024
            << " MiB, after 90 %: " << late / 1024 << " MiB\n";
  EXPECT_LE(late, early + early / 10);
}

TEST(MemoryTest, GoesBackToTheSystemWhenNobodyWantsIt) {
  testing::ServerProcess server({"--free-memory-keep-ms=200"});
  testing::TestClient client(testing::NewChannel(server.address()));
  const uint64_t before = ResidentKilobytes(server.pid());
  v1::RoundSpec spec;
  *spec.add_tensors() = testing::VectorSpec("t", kRows);
  const std::string round = client.Create(spec)->name();
  uint64_t most = 0;
  int contributors = 0;
  for (v1::SubmitUpdateRequest& update : MakeUpdates(round)) {
    update.mutable_header()->set_contributor("c" + std::to_string(++contributors));
    update.mutable_header()->set_update_id("u");
    ASSERT_TRUE(client.Submit(update).ok());
    most = std::max(most, ResidentKilobytes(server.pid()));
  }
  ASSERT_TRUE(client.Publish(round).ok());
  ASSERT_TRUE(client.Delete(round).ok());
  ASSERT_GT(most, before + 50 * 1024);

  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(testing::kCallSecondsMax);
  const uint64_t few = before + (most - before) / 4;
  uint64_t now = most;
  while (now > few && std::chrono::steady_clock::now() < deadline) {
    EXPECT_FALSE(client.Get(round).ok());  // rare calls do not keep the server from releasing
    now = ResidentKilobytes(server.pid());
  }
  EXPECT_LE(now, few) << before << " before, " << most << " during the round";
}

}  // namespace
}  // namespace sparseagg

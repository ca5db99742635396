// What the server's process needs does not grow with the number of contributors: updates are folded
// as they come, and only who was counted is remembered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "sparse/status.h"
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

// The most memory that a server ever has while it sums the updates of so many contributors.
uint64_t PeakKilobytes(int contributors) {
  // How far folding falls behind this client is a matter of the machine's mood; it is bounded.
  testing::ServerProcess server({"--staging-bytes-max=16777216"});
  testing::TestClient client(testing::NewChannel(server.address()));
  v1::RoundSpec spec;
  *spec.add_tensors() = testing::VectorSpec("t", kRows);
  const std::string round = client.Create(spec)->name();
  std::vector<v1::SubmitUpdateRequest> updates = MakeUpdates(round);
  for (int i = 0; i < contributors; ++i) {
    v1::SubmitUpdateRequest& update = updates[static_cast<size_t>(i) % updates.size()];
    update.mutable_header()->set_contributor("contributor-" + std::to_string(i));
    update.mutable_header()->set_update_id("update-" + std::to_string(i));
    auto receipt = client.Submit(update);
    while (ErrorReason(receipt.status()) == "STAGING_FULL") receipt = client.Submit(update);
    EXPECT_TRUE(receipt.ok()) << receipt.status();
    if (!receipt.ok()) return 0;
  }
  EXPECT_TRUE(client.Publish(round).ok());
  std::ifstream status("/proc/" + std::to_string(server.pid()) + "/status");
  const std::string key = "VmHWM:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::stoull(line.substr(key.size()));
  }
  return 0;
}

TEST(MemoryTest, DoesNotGrowWithTheNumberOfContributors) {
  const int contributors = testing::Effort("SPARSEAGG_MEMORY_CONTRIBUTORS", 1000);
  const uint64_t few = PeakKilobytes(contributors);
  const uint64_t many = PeakKilobytes(10 * contributors);
  std::cout << contributors << " contributors: " << few / 1024
            << " MiB, ten times as many: " << many / 1024 << " MiB\n";
  ASSERT_GT(few, 0u);
  EXPECT_LE(many, few + few / 10);
}

}  // namespace
}  // namespace sparseagg

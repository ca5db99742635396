// Kills the root of a divided round, and the owners with it, at each step of the root's store, from
// the creation of the round to its erasure; the next process goes on. The process of the test
// itself has no threads, because it forks.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/escaping.h"
#include "tests/service/tree/owner_bench.h"
#include "tests/support/effort.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using testing::Args;
using testing::BytesOf;
using testing::Create;
using testing::Effort;
using testing::kRound;
using testing::OwnerBench;
using testing::TemporaryFolder;

constexpr int kKilled = 9;

// The whole life of a round; what an earlier process has done is repeated. All servers are in this
// process. Writes the digests of the result to `out`, and ends the process at step `kill_at` of the
// root's store.
int Live(const std::string& folder, const std::string& out, int kill_at) {
  std::atomic<int> steps = 0;
  OwnerBench bench(2, folder, FailpointHook::Hook([&](Failpoint) {
                     if (++steps == kill_at) _exit(kKilled);
                     return absl::OkStatus();
                   }));
  if (!std::filesystem::exists(out)) {
    if (!Create(bench, Args(Durability::kDurable)).ok()) return 1;
    bench.SendAll();
    if (::testing::Test::HasFailure()) return 2;
    if (!bench.rounds->Seal(kRound).ok()) return 3;
    const RoundSnapshot round = bench.Finish();
    if (round.state != RoundState::kPublished) return 4;
    const auto result = bench.rounds->Result(kRound);
    const auto bytes = result.ok() ? BytesOf(*result) : result.status();
    if (!bytes.ok()) return 5;
    std::ofstream(out + ".tmp") << absl::BytesToHexString(round.manifest->updates_digest) << " "
                                << absl::BytesToHexString(round.manifest->result_digest) << " "
                                << std::hash<std::string>()(*bytes);
    std::filesystem::rename(out + ".tmp", out);
  }
  if (bench.root.engine().GetRound(kRound).ok() && !bench.root.engine().DeleteRound(kRound).ok()) {
    return 6;
  }
  bench.Work();
  bench.Work();
  for (const auto& server : bench.servers) {
    if (!server->engine().ListRounds("", 9).empty()) return 7;
  }
  return bench.HasRows() ? 8 : 0;
}

int LiveInAChild(const std::string& folder, const std::string& out, int kill_at) {
  const pid_t child = fork();
  if (child == 0) _exit(Live(folder, out, kill_at));
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(OwnersKillsTest, ATreeThatIsKilledAtAnyStepOfTheRootsStoreGoesOn) {
  const int stride = Effort("SPARSEAGG_TREE_KILL_STRIDE", 9);
  const TemporaryFolder reference;
  ASSERT_EQ(LiveInAChild(reference.path(), reference.path() + "/out", 0), 0);
  const std::string expected = Read(reference.path() + "/out");
  ASSERT_FALSE(expected.empty());
  int kills = 0;
  for (int step = 1;; step += stride) {
    const TemporaryFolder folder;
    const std::string out = folder.path() + "/out";
    const int ended = LiveInAChild(folder.path(), out, step);
    if (ended == 0) break;
    ASSERT_EQ(ended, kKilled) << "step " << step;
    ++kills;
    ASSERT_EQ(LiveInAChild(folder.path(), out, 0), 0) << "after a kill at step " << step;
    EXPECT_EQ(Read(out), expected) << "after a kill at step " << step;
  }
  EXPECT_GT(kills, 20 / stride);
}

}  // namespace
}  // namespace sparseagg

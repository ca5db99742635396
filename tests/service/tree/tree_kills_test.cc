// Kills the root at each step of its store, from the creation of a round to its erasure; the next
// process goes on. The process of the test itself has no threads, because it forks.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/service/tree/tree_bench.h"
#include "tests/support/effort.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using testing::Effort;
using testing::Sparse;
using testing::TemporaryFolder;
using testing::TreeBench;

constexpr char kRound[] = "rounds/r";
constexpr int kKilled = 9;
constexpr int kContributors = 9;

// The whole life of a round; what an earlier process has done is repeated. Writes the digests of
// the result to `out`, and ends the process at step `kill_at` of the root's store.
int Live(const std::string& folder, const std::string& out, int kill_at) {
  std::atomic<int> steps = 0;
  TreeBench bench(2, folder, FailpointHook::Hook([&](Failpoint) {
                    if (++steps == kill_at) _exit(kKilled);
                    return absl::OkStatus();
                  }));
  const TensorSpec spec = Sparse("w", 1000);
  CreateRoundArgs args;
  args.round_id = "r";
  args.request_id = "request";
  args.spec = {.tensors = {spec}, .durability = Durability::kDurable};
  const bool was_written = std::filesystem::exists(out);
  if (!was_written) {
    if (!bench.rounds->Create(args).ok()) return 1;
    for (int i = 0; i < kContributors; ++i) {
      const auto receipt = bench.Send(kRound, absl::StrCat("c", i), spec, 1.0f + i);
      // After the seal, an update that was counted is still answered with its receipt.
      if (!receipt.ok()) return 2;
    }
    if (!bench.rounds->Seal(kRound).ok()) return 3;
    bench.Work();
    const RoundSnapshot round = bench.root.Await(kRound);
    if (round.state != RoundState::kPublished) return 4;
    std::ofstream(out + ".tmp") << absl::BytesToHexString(round.manifest->updates_digest) << " "
                                << absl::BytesToHexString(round.manifest->result_digest) << " "
                                << round.manifest->contributors;
    // Another thread may end the process while the file is being written.
    std::filesystem::rename(out + ".tmp", out);
  }
  if (bench.root.engine().GetRound(kRound).ok() && !bench.root.engine().DeleteRound(kRound).ok()) {
    return 5;
  }
  bench.Work();
  for (const auto& server : bench.servers) {
    if (server->engine().GetRound(kRound).ok()) return 6;
  }
  return bench.HasRows() ? 7 : 0;
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

TEST(TreeKillsTest, ARootThatIsKilledAtAnyStepOfItsStoreGoesOn) {
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

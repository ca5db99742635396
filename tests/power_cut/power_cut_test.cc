// After a power cut at any moment of a run, the durable store has everything acknowledged, once,
// with its bytes. The run's I/O is recorded, the disks that a cut could leave are made from the
// record, and the store is opened on each. Disks that ignore the store's syncs show that the test
// finds failures.
//
// SPARSEAGG_POWER_CUT_STATES (400) is the number of disks to check.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/store/durable_store.h"
#include "tests/power_cut/crash_states.h"
#include "tests/power_cut/worker.h"
#include "tests/support/effort.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg::testing {
namespace {

namespace fs = std::filesystem;

struct Findings {
  int lost = 0;
  int doubled = 0;
  int corrupt = 0;
  int unreadable = 0;
  int left = 0;  // leftover files
  int states = 0;
  size_t acknowledged = 0;
  uint64_t resumed_bytes = 0;

  int all() const { return lost + doubled + corrupt + unreadable + left; }
  void operator+=(const Findings& more) {
    lost += more.lost;
    doubled += more.doubled;
    corrupt += more.corrupt;
    unreadable += more.unreadable;
    left += more.left;
    resumed_bytes += more.resumed_bytes;
    states += more.states;
    acknowledged += more.acknowledged;
  }
};

std::ostream& operator<<(std::ostream& out, const Findings& found) {
  return out << found.states << " disks, " << found.acknowledged
             << " acknowledgements: " << found.lost << " lost, " << found.doubled << " doubled, "
             << found.corrupt << " corrupt, " << found.unreadable << " unreadable, " << found.left
             << " files left; " << found.resumed_bytes << " bytes of partial updates resumed";
}

// A folder in memory, because the disk's own syncs are not tested.
class MemoryFolder : public TemporaryFolder {
 public:
  MemoryFolder()
      : TemporaryFolder(fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()) {
  }
};

int StatesWanted() { return Effort("SPARSEAGG_POWER_CUT_STATES", 400); }

void CheckUpdates(const UpdateStore& store, const CrashState& state, Findings& found) {
  std::set<std::string> stored;
  const absl::Status read = store.ReadUpdates(
      kUpdatesRound,
      [&](const UpdateRecord& record, std::string_view headers, std::string_view payload) {
        if (!stored.insert(record.contributor).second) ++found.doubled;
        if (headers != record.contributor || payload != PayloadOf(record.contributor)) {
          ++found.corrupt;
        }
        return absl::OkStatus();
      });
  if (!read.ok()) ++found.corrupt;
  for (const std::string& ack : state.acknowledged) {
    if (absl::ascii_isdigit(ack[0]) && !stored.contains(ack)) ++found.lost;
  }
}

bool IsAcknowledged(const CrashState& state, const std::string& what) {
  return std::find(state.acknowledged.begin(), state.acknowledged.end(), what) !=
         state.acknowledged.end();
}

void CheckResult(const UpdateStore& store, const CrashState& state, Findings& found) {
  const bool acknowledged = IsAcknowledged(state, kPublishedAck);
  for (const RoundRecord& round : store.Rounds()) {
    if (!round.damage.empty()) ++found.corrupt;
    if (round.name == kUpdatesRound && IsAcknowledged(state, kNotedAck) &&
        round.details != kNotedAck) {
      ++found.lost;
    }
    if (round.name != kResultRound) continue;
    if (round.phase == RoundPhase::kPublished) {
      const auto result = store.ReadResult(kResultRound);
      if (!result.ok() || *result != ResultOfRound()) ++found.corrupt;
    } else if (acknowledged) {
      ++found.lost;
    }
  }
}

// Checks that there is the round or its tombstone, and once that is acknowledged, the tombstone.
void CheckRetired(const UpdateStore& store, const CrashState& state, Findings& found) {
  int rounds = 0;
  for (const RoundRecord& round : store.Rounds()) rounds += round.name == kRetiredRound ? 1 : 0;
  int tombstones = 0;
  for (const Tombstone& tombstone : store.Tombstones()) {
    if (tombstone.damaged) ++found.corrupt;
    tombstones += tombstone.round == kRetiredRound ? 1 : 0;
  }
  if (rounds + tombstones > 1) ++found.doubled;
  if (rounds + tombstones < 1) ++found.lost;
  if (IsAcknowledged(state, kRetiredAck) && tombstones == 0) ++found.lost;
}

// The epoch of a start is higher than every acknowledged epoch.
void CheckEpoch(const UpdateStore& store, const CrashState& state, Findings& found) {
  for (const std::string& ack : state.acknowledged) {
    uint64_t acknowledged = 0;
    if (!absl::StartsWith(ack, kEpochAck)) continue;
    if (!absl::SimpleAtoi(ack.substr(sizeof(kEpochAck) - 1), &acknowledged) ||
        store.Epoch().epoch <= acknowledged) {
      ++found.lost;
    }
  }
}

// The stored part of a partial payload is a prefix of what was sent, and is deleted when it is
// discarded.
void CheckPartials(UpdateStore& store, const std::string& folder, Findings& found) {
  for (int number = 0; number < kPartials; ++number) {
    const PartialIdentity identity = PartialOf(number);
    auto partial = store.OpenUploadPayload(identity);
    if (!partial.ok() || *partial == nullptr) {
      ++found.unreadable;
      continue;
    }
    const auto content = (*partial)->View();
    const std::string sent = PayloadOf(identity.contributor).substr(0, (*partial)->bytes());
    if (!content.ok() || *content != sent) ++found.corrupt;
    found.resumed_bytes += (*partial)->bytes();
    (*partial)->Discard();
  }
  for (const auto& entry : fs::directory_iterator(folder + "/payloads")) {
    if (entry.path().extension() == ".part") ++found.left;
  }
}

void Check(const CrashState& state, Findings& found) {
  const MemoryFolder folder;
  WriteFolder(folder.path(), state.files);
  ++found.states;
  found.acknowledged += state.acknowledged.size();
  const auto store = OpenDurableStore({.directory = folder.path(), .free_bytes_min = 0});
  if (!store.ok()) {
    ++found.unreadable;
    return;
  }
  CheckUpdates(**store, state, found);
  CheckResult(**store, state, found);
  CheckRetired(**store, state, found);
  CheckEpoch(**store, state, found);
  CheckPartials(**store, folder.path(), found);
}

class PowerCutTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(PrepareStore(data()));
    initial_ = ReadFolder(data());
  }

  std::string data() const { return folder_.path() + "/data"; }
  std::string log() const { return folder_.path() + "/log"; }

  // Runs the worker under the recorder; 0: it is not killed. Returns its wait status.
  int Run(const std::string& mode, int kill_at_sync = 0) {
    setenv("LD_PRELOAD", SPARSEAGG_IO_RECORDER, 1);
    setenv("SPARSEAGG_RECORD_DIR", data().c_str(), 1);
    setenv("SPARSEAGG_RECORD_LOG", log().c_str(), 1);
    if (kill_at_sync > 0) setenv("SPARSEAGG_KILL_AT_SYNC", absl::StrCat(kill_at_sync).c_str(), 1);
    std::string self = "/proc/self/exe";
    std::string flag = "--worker";
    std::string folder = data();
    std::string how = mode;
    char* argv[] = {self.data(), flag.data(), folder.data(), how.data(), nullptr};
    pid_t pid = 0;
    const int error = posix_spawn(&pid, self.c_str(), nullptr, nullptr, argv, environ);
    for (const char* name :
         {"LD_PRELOAD", "SPARSEAGG_RECORD_DIR", "SPARSEAGG_RECORD_LOG", "SPARSEAGG_KILL_AT_SYNC"}) {
      unsetenv(name);
    }
    EXPECT_EQ(error, 0);
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return status;
  }

  // Checks cuts at random places in [begin, end].
  Findings CheckCuts(const std::vector<IoEvent>& events, size_t begin, size_t end, int states,
                     uint64_t seed) const {
    Findings found;
    for (int i = 0; i < states; ++i) {
      std::mt19937_64 random(seed * 1'000'003 + static_cast<uint64_t>(i));
      const size_t cut = begin + random() % (end - begin + 1);
      const CutPolicy policy = kCutPolicies[random() % std::size(kCutPolicies)];
      const int before = found.all();
      Check(CutPower(initial_, events, cut, policy, random), found);
      if (found.all() != before && before == 0) first_ = absl::StrCat("seed ", seed, " state ", i);
    }
    return found;
  }

  MemoryFolder folder_;
  Files initial_;
  mutable std::string first_;  // the first state with a finding
};

using Change = std::function<std::vector<IoEvent>(const std::vector<IoEvent>&)>;

Change Without(const std::function<bool(const IoEvent&)>& ignored) {
  return [ignored](const std::vector<IoEvent>& events) {
    std::vector<IoEvent> left;
    for (const IoEvent& event : events) {
      if (!ignored(event)) left.push_back(event);
    }
    return left;
  };
}

bool IsLog(const IoEvent& event) { return absl::EndsWith(event.name, "-wal"); }

// Simulates an answer that is given before the commit is on the disk.
std::vector<IoEvent> AcknowledgedEarly(const std::vector<IoEvent>& events) {
  std::vector<IoEvent> changed;
  for (const IoEvent& event : events) {
    changed.push_back(event);
    if (event.op != IoOp::kAck) continue;
    for (size_t i = changed.size() - 1; i > 0; --i) {
      const bool sync = changed[i - 1].op == IoOp::kSync && IsLog(changed[i - 1]);
      std::swap(changed[i], changed[i - 1]);
      if (sync) break;
    }
  }
  return changed;
}

TEST_F(PowerCutTest, EverythingAcknowledgedIsThereOnce) {
  ASSERT_EQ(Run("put"), 0);
  const std::vector<IoEvent> events = ReadIoLog(log());
  ASSERT_GT(events.size(), 500u);
  const Findings found = CheckCuts(events, 0, events.size(), StatesWanted(), 1);
  EXPECT_EQ(found.all(), 0) << found << "; first: " << first_;
  EXPECT_GT(found.acknowledged, 0u);
  EXPECT_GT(found.resumed_bytes, 0u);
  std::cout << found << "\n";
}

TEST_F(PowerCutTest, DisksThatIgnoreASyncAreNoticed) {
  ASSERT_EQ(Run("put"), 0);
  const std::vector<IoEvent> events = ReadIoLog(log());
  const std::pair<const char*, Change> changes[] = {
      {"the log is not synced",
       Without([](const IoEvent& e) { return e.op == IoOp::kSync && IsLog(e); })},
      {"payloads are not synced", Without([](const IoEvent& e) {
         return e.op == IoOp::kSync && absl::StartsWith(e.name, "payloads/");
       })},
      {"the names of payloads are not synced",
       Without([](const IoEvent& e) { return e.op == IoOp::kSyncFolder && e.name == "payloads"; })},
      {"acknowledged before the commit", AcknowledgedEarly},
      {"the database is not synced before the log is reused",
       Without([](const IoEvent& e) { return e.op == IoOp::kSync && e.name == "store.db"; })},
      {"updates are not written to the log", Without([](const IoEvent& e) {
         return e.op == IoOp::kWrite && IsLog(e) && e.offset > 200'000;
       })},
  };
  for (const auto& [what, change] : changes) {
    const std::vector<IoEvent> changed = change(events);
    const Findings found = CheckCuts(changed, 0, changed.size(), 150, 2);
    EXPECT_GT(found.all(), 0) << what << ": " << found;
    std::cout << what << ": " << found << "\n";
  }
}

// A process that is killed at a sync leaves commits in the page cache that never reached the disk.
// The next process reads them and acknowledges them again without a write of its own; then the
// power is cut. The start must have made them durable.
TEST_F(PowerCutTest, AKillBeforeTheCutLosesNothingThatWasAcknowledgedAfterIt) {
  Findings unsafe;
  Findings found;
  const int runs = std::max(6, StatesWanted() / 100);
  for (int run = 0; run < runs; ++run) {
    fs::remove_all(data());
    fs::remove(log());
    ASSERT_TRUE(PrepareStore(data()));
    initial_ = ReadFolder(data());
    ASSERT_TRUE(WIFSIGNALED(Run("put", 5 + run * 7 % 40)));
    const size_t killed = ReadIoLog(log()).size();
    ASSERT_EQ(Run("resend"), 0);
    const std::vector<IoEvent> events = ReadIoLog(log());
    found += CheckCuts(events, killed, events.size(), 30, 100 + run);
    // The same without the syncs of the start.
    std::vector<IoEvent> changed(events.begin(), events.begin() + static_cast<long>(killed));
    for (size_t i = killed; i < events.size(); ++i) {
      const bool sync = events[i].op == IoOp::kSync || events[i].op == IoOp::kSyncFolder;
      if (!sync) changed.push_back(events[i]);
    }
    unsafe += CheckCuts(changed, killed, changed.size(), 30, 100 + run);
  }
  EXPECT_EQ(found.all(), 0) << found << "; first: " << first_;
  EXPECT_GT(found.acknowledged, 0u);
  EXPECT_GT(unsafe.all(), 0) << "without the syncs of the start: " << unsafe;
  std::cout << found << "; without the syncs of the start: " << unsafe << "\n";
}

}  // namespace
}  // namespace sparseagg::testing

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--worker") {
    return sparseagg::testing::RunWorker(argv[2], argv[3]);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

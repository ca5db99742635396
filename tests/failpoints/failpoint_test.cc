// Visits every failpoint of the store, each time that the workload of five rounds passes it: the
// process is killed there, started, killed once more, and started for good. All answers still hold,
// and the final state is that of an uninterrupted run. The same is done with errors in place of
// kills.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/store/store_errors.h"
#include "tests/failpoints/workload.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg::testing {
namespace {

namespace fs = std::filesystem;

std::string NameOf(Failpoint point) {
  return std::string(kFailpoints[static_cast<size_t>(point)].name);
}

// A folder in memory, because syncs are not tested here.
class MemoryFolder : public TemporaryFolder {
 public:
  MemoryFolder()
      : TemporaryFolder(fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()) {
  }
};

Notes ReadNotes(const std::string& path) {
  Notes notes;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) notes.push_back(line);
  return notes;
}

// Runs the workload on `folder` in a process that is killed at the failpoint number `kill_at`.
int Worker(const std::string& folder, const std::string& notes, int kill_at) {
  const int file = open(notes.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  int passed = 0;
  const auto hook = [&](Failpoint) {
    if (passed++ == kill_at) raise(SIGKILL);
    return absl::OkStatus();
  };
  auto server = LocalServer::Start(folder, FailpointHook(hook));
  if (file < 0 || !server.ok()) return 2;
  const absl::Status lived = RunWorkload(**server, [file](const std::string& note) {
    const std::string line = note + "\n";
    if (write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(3);
  });
  return lived.ok() ? 0 : 4;
}

int RunWorker(const std::string& folder, const std::string& notes, int kill_at) {
  std::string self = "/proc/self/exe";
  std::string arguments[] = {self, "--worker", folder, notes, std::to_string(kill_at)};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  EXPECT_EQ(posix_spawn(&pid, self.c_str(), nullptr, nullptr, argv.data(), environ), 0);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

// An uninterrupted run: the failpoints that it passed, and its final state.
struct Uninterrupted {
  std::vector<Failpoint> passed;
  std::string outcome;
  size_t files = 0;
};

size_t CountFiles(const std::string& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder + "/payloads"), {}));
}

Uninterrupted LiveThrough() {
  const MemoryFolder folder;
  Uninterrupted life;
  auto server = LocalServer::Start(folder.path(), FailpointHook([&](Failpoint point) {
                                     life.passed.push_back(point);
                                     return absl::OkStatus();
                                   }));
  EXPECT_TRUE(server.ok()) << server.status();
  const absl::Status lived = RunWorkload(**server, [](const std::string&) {});
  EXPECT_TRUE(lived.ok()) << lived;
  const std::vector<Failpoint> passed = life.passed;
  life.outcome = FinalState(**server);
  life.files = CountFiles(folder.path());
  life.passed = passed;  // without those that FinalState() passes
  return life;
}

// Runs the workload to its end and compares the final state.
void ExpectTheSameEnd(const std::string& folder, const Notes& notes, const Uninterrupted& life) {
  auto server = LocalServer::Start(folder);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(FirstBrokenNote(**server, notes), "");
  const absl::Status lived = RunWorkload(**server, [](const std::string&) {});
  EXPECT_TRUE(lived.ok()) << lived;
  EXPECT_EQ(FinalState(**server), life.outcome);
  EXPECT_EQ(CountFiles(folder), life.files);
}

TEST(FailpointTest, EveryFailpointIsPassedInTheLifeOfARound) {
  // The second start finds rounds and a leftover file.
  const MemoryFolder folder;
  std::set<std::string> passed;
  const auto hook = [&](Failpoint point) {
    passed.insert(NameOf(point));
    return absl::OkStatus();
  };
  for (int start = 0; start < 2; ++start) {
    auto server = LocalServer::Start(folder.path(), FailpointHook(hook));
    ASSERT_TRUE(server.ok()) << server.status();
    ASSERT_TRUE(RunWorkload(**server, [](const std::string&) {}).ok());
  }
  for (const FailpointInfo& point : kFailpoints) {
    EXPECT_TRUE(passed.contains(std::string(point.name)))
        << "nothing passes the failpoint \"" << point.name
        << "\": let tests/failpoints/workload.cc do so";
  }
}

TEST(FailpointTest, AKillAtAnyFailpointLosesNothingAndDoublesNothing) {
  const Uninterrupted life = LiveThrough();
  ASSERT_GT(life.passed.size(), 100u);
  for (size_t i = 0; i < life.passed.size(); ++i) {
    // The second kill hits every step of the start and some later steps.
    const int second = static_cast<int>(i * 7 % 23);
    SCOPED_TRACE(absl::StrCat("killed at failpoint ", i, " (", NameOf(life.passed[i]),
                              "), and at number ", second, " of the next process"));
    const MemoryFolder folder;
    const std::string data = folder.path() + "/data";
    const std::string notes = folder.path() + "/notes";
    const int killed = RunWorker(data, notes, static_cast<int>(i));
    ASSERT_TRUE(WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL) << killed;
    const int again = RunWorker(data, notes, second);
    ASSERT_TRUE(WIFSIGNALED(again) ? WTERMSIG(again) == SIGKILL : again == 0) << again;
    ExpectTheSameEnd(data, ReadNotes(notes), life);
    if (HasFailure()) return;
  }
  std::cout << life.passed.size() << " failpoints, a process killed at each\n";
}

// Simulates a disk that is full for a moment.
TEST(FailpointTest, AnErrorAtAnyFailpointIsAnsweredAndLeavesNothingHalfDone) {
  const Uninterrupted life = LiveThrough();
  int failed = 0;
  for (size_t i = 0; i < life.passed.size(); ++i) {
    if (!kFailpoints[static_cast<size_t>(life.passed[i])].may_fail) continue;
    SCOPED_TRACE(absl::StrCat("an error at failpoint ", i, " (", NameOf(life.passed[i]), ")"));
    ++failed;
    const MemoryFolder folder;
    size_t passed = 0;
    Notes notes;
    const auto note = [&](const std::string& line) { notes.push_back(line); };
    const auto hook = [&](Failpoint) { return passed++ == i ? StoreFull() : absl::OkStatus(); };
    auto server = LocalServer::Start(folder.path(), FailpointHook(hook));
    if (!server.ok()) {
      EXPECT_EQ(ErrorReason(server.status()), "STORE_FULL");
      server = LocalServer::Start(folder.path(), FailpointHook(hook));
    }
    ASSERT_TRUE(server.ok()) << server.status();
    const absl::Status lived = RunWorkload(**server, note);
    ASSERT_TRUE(lived.ok()) << lived;
    EXPECT_EQ(FirstBrokenNote(**server, notes), "");
    server->reset();
    ExpectTheSameEnd(folder.path(), notes, life);
    if (HasFailure()) return;
  }
  EXPECT_GT(failed, 50);
  std::cout << failed << " failpoints, an error at each\n";
}

}  // namespace
}  // namespace sparseagg::testing

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == "--worker") {
    return sparseagg::testing::Worker(argv[2], argv[3], std::atoi(argv[4]));
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

#include "tests/e2e/server_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"

extern char** environ;

namespace sparseagg::testing {
namespace {

std::string NewPortFile() {
  static std::atomic<int> number = 0;
  return absl::StrCat(::testing::TempDir(), "sparseagg_port_", getpid(), "_", ++number);
}

// Starts the program with its standard error on `log_fd`.
pid_t Spawn(std::vector<std::string> arguments, int log_fd) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, log_fd, STDERR_FILENO);
  pid_t pid = -1;
  EXPECT_EQ(posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ), 0) << argv[0];
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

}  // namespace

ServerProcess::ServerProcess(const std::vector<std::string>& arguments)
    : port_file_(NewPortFile()) {
  std::vector<std::string> all = {SPARSEAGG_PROGRAM, "serve",       "--listen",
                                  "127.0.0.1:0",     "--port-file", port_file_};
  all.insert(all.end(), arguments.begin(), arguments.end());
  // Servers of several tests run at the same time, so the port is not fixed.
  const auto is_admin = [](const std::string& a) { return a.starts_with("--admin-listen"); };
  if (std::none_of(all.begin(), all.end(), is_admin)) all.emplace_back("--admin-listen=none");
  int pipe_fds[2];
  EXPECT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
  pid_ = Spawn(all, pipe_fds[1]);
  close(pipe_fds[1]);
  log_fd_ = pipe_fds[0];
  log_reader_ = std::thread([this] { ReadLog(); });
  if (!WaitForLog("event=serving")) return;
  int port = 0;
  std::ifstream(port_file_) >> port;
  address_ = absl::StrCat("127.0.0.1:", port);
}

ServerProcess::~ServerProcess() {
  if (pid_ > 0 && !reaped_) {
    Signal(SIGKILL);
    Wait();
  }
  log_reader_.join();
  close(log_fd_);
  std::remove(port_file_.c_str());
}

void ServerProcess::Signal(int number) const {
  // A signal to process -1 would go to every process of the machine.
  ASSERT_GT(pid_, 0) << "the server could not be started";
  EXPECT_EQ(kill(pid_, number), 0);
}

int ServerProcess::Wait() {
  if (pid_ <= 0) return -1;
  int status = 0;
  EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
  reaped_ = true;
  std::unique_lock lock(mutex_);
  log_grew_.wait(lock, [this] { return log_ended_; });
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool ServerProcess::WaitForLog(const std::string& text) {
  std::unique_lock lock(mutex_);
  log_grew_.wait(lock, [&] { return log_ended_ || log_.find(text) != std::string::npos; });
  return log_.find(text) != std::string::npos;
}

std::string ServerProcess::log() {
  const std::lock_guard lock(mutex_);
  return log_;
}

void ServerProcess::ReadLog() {
  char buffer[4096];
  while (true) {
    const ssize_t n = read(log_fd_, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    const std::lock_guard lock(mutex_);
    if (n <= 0) log_ended_ = true;
    if (n > 0) log_.append(buffer, static_cast<size_t>(n));
    log_grew_.notify_all();
    if (n <= 0) return;
  }
}

ProgramRun RunProgram(const std::string& arguments, const std::string& before) {
  ProgramRun run = {-1, ""};
  std::FILE* program =
      popen(absl::StrCat(before, SPARSEAGG_PROGRAM, " ", arguments, " 2>&1").c_str(), "r");
  if (program == nullptr) return run;
  char piece[4096];
  for (size_t bytes = 0; (bytes = std::fread(piece, 1, sizeof(piece), program)) > 0;) {
    run.output.append(piece, bytes);
  }
  const int status = pclose(program);
  if (WIFEXITED(status)) run.exit_code = WEXITSTATUS(status);
  return run;
}

}  // namespace sparseagg::testing

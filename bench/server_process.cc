#include "bench/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sparseagg::bench {

namespace {

absl::StatusOr<std::string> MakeFolder() {
  std::string folder = std::filesystem::temp_directory_path() / "sparseagg_bench_XXXXXX";
  if (mkdtemp(folder.data()) != nullptr) return folder;
  return absl::UnavailableError(absl::StrCat("cannot make the folder ", folder));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(const std::string& program) {
  const auto folder = MakeFolder();
  if (!folder.ok()) return folder.status();
  return Spawn(program, *folder,
               {"serve", "--listen=127.0.0.1:0", "--data-dir=" + *folder + "/data",
                "--admin-listen=none", "--port-file", *folder + "/port"});
}

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::StartOther(
    const std::string& program, std::vector<std::string> arguments) {
  const auto folder = MakeFolder();
  if (!folder.ok()) return folder.status();
  arguments.push_back(*folder + "/port");
  return Spawn(program, *folder, std::move(arguments));
}

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Spawn(
    const std::string& program, const std::string& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  const std::string log = folder + "/log";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_CREAT | O_WRONLY, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return absl::NotFoundError(absl::StrCat("cannot start ", program));

  std::unique_ptr<ServerProcess> server(new ServerProcess(pid, folder));
  const absl::Status ready = server->WaitForPort();
  if (!ready.ok()) return ready;
  return server;
}

absl::Status ServerProcess::WaitForPort() {
  using std::chrono::steady_clock;
  const auto deadline = steady_clock::now() + std::chrono::seconds(15);
  while (steady_clock::now() < deadline && waitpid(pid_, nullptr, WNOHANG) == 0) {
    std::ifstream file(folder_ + "/port");
    std::string port;
    if (std::getline(file, port) && !port.empty()) {
      target_ = port.find(':') == std::string::npos ? "127.0.0.1:" + port : port;
      return absl::OkStatus();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return absl::UnavailableError(
      absl::StrCat("the server does not serve; its log is ", folder_, "/log"));
}

ServerProcess::~ServerProcess() {
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
  if (target_.empty()) return;  // the log of a failure stays
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

double ServerProcess::CpuSeconds() const {
  // /proc/PID/stat counts in ticks of 10 ms: a twentieth of what a sink takes for 1 GB.
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

uint64_t ServerProcess::StatusBytes(const std::string& key) const {
  std::ifstream file(absl::StrCat("/proc/", pid_, "/status"));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return std::stoull(line.substr(key.size())) << 10;
  }
  return 0;
}

uint64_t ServerProcess::ResidentBytes() const { return StatusBytes("VmRSS:"); }
uint64_t ServerProcess::PeakBytes() const { return StatusBytes("VmHWM:"); }
void ServerProcess::ResetPeak() const {
  std::ofstream(absl::StrCat("/proc/", pid_, "/clear_refs")) << "5";
}

std::string ThisProgram() { return std::filesystem::read_symlink("/proc/self/exe"); }

std::string ServerBesideThisProgram() {
  return std::filesystem::path(ThisProgram()).parent_path() / "sparseagg";
}

}  // namespace sparseagg::bench

#include "bench/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sparseagg::bench {

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(const std::string& program) {
  std::string folder = std::filesystem::temp_directory_path() / "sparseagg_bench_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot make the folder ", folder));
  }
  std::string port_file = folder + "/port";
  std::string arguments[] = {program,       "serve",          "--listen",
                             "127.0.0.1:0", "--port-file",    port_file,
                             "--data-dir",  folder + "/data", "--admin-listen=none"};
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

std::string ServerBesideThisProgram() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "sparseagg";
}

}  // namespace sparseagg::bench

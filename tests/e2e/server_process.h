// Runs `sparseagg serve` in a process of its own, on a free port.
#ifndef SPARSEAGG_TESTS_E2E_SERVER_PROCESS_H_
#define SPARSEAGG_TESTS_E2E_SERVER_PROCESS_H_

#include <sys/types.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sparseagg::testing {

class ServerProcess {
 public:
  // Starts the server with `arguments` after the arguments that choose the port. Returns when it
  // serves or has ended.
  explicit ServerProcess(const std::vector<std::string>& arguments = {});
  // Kills the server if it still runs.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  const std::string& address() const { return address_; }  // empty when it could not serve
  const std::string& port_file() const { return port_file_; }
  pid_t pid() const { return pid_; }
  void Signal(int number) const;
  // Waits for a line of the log that contains `text`. Returns false if the log ends without one.
  bool WaitForLog(const std::string& text);
  // Waits for the end of the process and of its log. Returns the exit code, or 128 + the number of
  // the signal that killed it.
  int Wait();
  std::string log();

 private:
  void ReadLog();

  pid_t pid_ = -1;
  bool reaped_ = false;
  int log_fd_ = -1;
  std::string port_file_;
  std::string address_;
  std::mutex mutex_;
  std::condition_variable log_grew_;
  std::string log_;
  bool log_ended_ = false;
  std::thread log_reader_;
};

// Runs the program to its end in a shell, after `before`. Returns its exit code and what it wrote
// to standard output and standard error.
struct ProgramRun {
  int exit_code;
  std::string output;
};
ProgramRun RunProgram(const std::string& arguments, const std::string& before = "");

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_E2E_SERVER_PROCESS_H_

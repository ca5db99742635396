// A server process on a free port of this machine, for measurements from outside.
#ifndef SPARSEAGG_BENCH_SERVER_PROCESS_H_
#define SPARSEAGG_BENCH_SERVER_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sparseagg::bench {

// Ends the server when destroyed.
class ServerProcess {
 public:
  // Starts `program serve` with a data directory of its own and waits until it serves. Log and data
  // are in a new folder of the system's temporary directory; errors name it.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Start(const std::string& program);
  // Starts any program that writes its port to the file that is named by the argument that is added
  // to `arguments`.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> StartOther(
      const std::string& program, std::vector<std::string> arguments);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // host:port
  const std::string& target() const { return target_; }
  // For files of the measurement, on the disk of the data directory. Gone with the server.
  const std::string& folder() const { return folder_; }
  // Seconds that all its threads have used, in the system too.
  double CpuSeconds() const;
  // Memory that it has, and the most that it had since the last ResetPeak().
  uint64_t ResidentBytes() const;
  uint64_t PeakBytes() const;
  void ResetPeak() const;

 private:
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Spawn(const std::string& program,
                                                              const std::string& folder,
                                                              std::vector<std::string> arguments);
  uint64_t StatusBytes(const std::string& key) const;
  ServerProcess(pid_t pid, std::string folder) : pid_(pid), folder_(std::move(folder)) {}
  absl::Status WaitForPort();

  pid_t pid_;
  std::string folder_;
  std::string target_;
};

std::string ThisProgram();
// `sparseagg` beside the running program.
std::string ServerBesideThisProgram();

}  // namespace sparseagg::bench

#endif  // SPARSEAGG_BENCH_SERVER_PROCESS_H_

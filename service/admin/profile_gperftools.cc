#include <gperftools/profiler.h>
#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/admin/profile.h"

namespace sparseagg {
namespace {

// A file in memory, because the profiler needs a path and a container may have no writable folder.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("profile", MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return absl::StrCat("/proc/self/fd/", fd_); }

  std::string Read() const {
    std::string bytes;
    char piece[1 << 16];
    off_t at = 0;
    for (ssize_t n = 0; (n = pread(fd_, piece, sizeof(piece), at)) > 0; at += n) {
      bytes.append(piece, static_cast<size_t>(n));
    }
    return bytes;
  }

 private:
  const int fd_;
};

}  // namespace

absl::StatusOr<std::string> TakeCpuProfile(std::chrono::seconds duration, std::stop_token stop) {
  const MemoryFile file;
  if (ProfilerStart(file.path().c_str()) == 0) {
    return absl::UnavailableError("the profiler could not be started");
  }
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any stopped;
  stopped.wait_for(lock, std::move(stop), duration, [] { return false; });
  ProfilerStop();
  return file.Read();
}

}  // namespace sparseagg

// Records the operations of a program on the files of a folder. Start the program with this library
// in LD_PRELOAD:
//
//   SPARSEAGG_RECORD_DIR    the folder
//   SPARSEAGG_RECORD_LOG    the log, outside of it; appended to
//   SPARSEAGG_KILL_AT_SYNC  the n-th sync of a *-wal file, from 1, is a SIGKILL instead
//
// Syncs are recorded and not executed, because only their place in the order matters. One mutex
// around each call and its record makes the order of the log a possible one. openat, mmap and
// io_uring are not covered, because neither SQLite in exclusive mode nor the store uses them.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

#include "tests/power_cut/io_log.h"
#include "tests/support/interpose.h"

namespace {

using sparseagg::testing::IoOp;
using sparseagg::testing::IoRecord;
using sparseagg::testing::kAckFile;
using sparseagg::testing::Next;
using sparseagg::testing::PathOf;

std::mutex& Mutex() {
  static std::mutex mutex;
  return mutex;
}

const std::string& Folder() {
  static const std::string kFolder = [] {
    const char* path = std::getenv("SPARSEAGG_RECORD_DIR");
    return std::string(path == nullptr ? "" : path);
  }();
  return kFolder;
}

int LogFd() {
  static const int kLogFd = Next<int(const char*, int, ...)>("open")(
      std::getenv("SPARSEAGG_RECORD_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  return kLogFd;
}

// Sets the path within the folder. Returns false for a path outside of it.
bool NameOf(const std::string& path, std::string& name) {
  const std::string& folder = Folder();
  if (folder.empty() || path.compare(0, folder.size(), folder) != 0) return false;
  if (path.size() > folder.size() && path[folder.size()] != '/') return false;
  name = path.size() > folder.size() ? path.substr(folder.size() + 1) : "";
  return true;
}

bool NameOf(int fd, std::string& name) { return NameOf(PathOf(fd), name); }

void Record(IoOp op, const std::string& name, uint64_t offset = 0, const void* data = nullptr,
            uint64_t bytes = 0) {
  const IoRecord head = {op, static_cast<uint32_t>(name.size()), offset, bytes};
  std::string record(reinterpret_cast<const char*>(&head), sizeof(head));
  record += name;
  record.append(static_cast<const char*>(data), bytes);
  Next<decltype(write)>("write")(LogFd(), record.data(), record.size());
}

int Open(const char* symbol, const char* path, int flags, mode_t mode) {
  const std::lock_guard lock(Mutex());
  std::string name;
  struct stat found;
  const bool creates = (flags & O_CREAT) != 0 && NameOf(path, name) && stat(path, &found) != 0;
  const int fd = Next<int(const char*, int, ...)>(symbol)(path, flags, mode);
  if (creates && fd >= 0 && name != kAckFile) Record(IoOp::kCreate, name);
  return fd;
}

mode_t ModeOf(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

int Sync(int fd, const char* symbol) {
  const std::lock_guard lock(Mutex());
  std::string name;
  if (!NameOf(fd, name)) return Next<int(int)>(symbol)(fd);
  static long wal_syncs = 0;
  const char* kill_at = std::getenv("SPARSEAGG_KILL_AT_SYNC");
  if (kill_at != nullptr && name.ends_with("-wal") && ++wal_syncs == std::atol(kill_at)) {
    kill(getpid(), SIGKILL);
  }
  struct stat found;
  const bool folder = fstat(fd, &found) == 0 && S_ISDIR(found.st_mode);
  Record(folder ? IoOp::kSyncFolder : IoOp::kSync, name);
  return 0;
}

// Runs `write`, which writes `data` at the file's current offset.
template <class Write>
ssize_t WriteRecorded(int fd, Write write, std::string_view data) {
  const std::lock_guard lock(Mutex());
  std::string name;
  const bool recorded = NameOf(fd, name);
  const off_t offset = recorded ? lseek(fd, 0, SEEK_CUR) : 0;
  const ssize_t written = write();
  if (recorded && written > 0) {
    Record(name == kAckFile ? IoOp::kAck : IoOp::kWrite, name, static_cast<uint64_t>(offset),
           data.data(), static_cast<uint64_t>(written));
  }
  return written;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return Open("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return Open("open64", path, flags, mode);
}

ssize_t write(int fd, const void* data, size_t bytes) {
  return WriteRecorded(fd, [&] { return Next<decltype(write)>("write")(fd, data, bytes); },
                       {static_cast<const char*>(data), bytes});
}

// Recorded as one write, which may be torn anywhere. The pieces are not copied, because direct
// writes need their alignment.
ssize_t writev(int fd, const struct iovec* parts, int count) {
  std::string data;
  for (int i = 0; i < count; ++i) {
    data.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  }
  return WriteRecorded(
      fd, [&] { return Next<decltype(writev)>("writev")(fd, parts, count); }, data);
}

ssize_t pwrite64(int fd, const void* data, size_t bytes, off64_t offset) {
  const std::lock_guard lock(Mutex());
  std::string name;
  const ssize_t written = Next<decltype(pwrite64)>("pwrite64")(fd, data, bytes, offset);
  if (written > 0 && NameOf(fd, name)) {
    Record(IoOp::kWrite, name, static_cast<uint64_t>(offset), data, static_cast<uint64_t>(written));
  }
  return written;
}

ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  return pwrite64(fd, data, bytes, offset);
}

int ftruncate64(int fd, off64_t bytes) {
  const std::lock_guard lock(Mutex());
  std::string name;
  const int result = Next<decltype(ftruncate64)>("ftruncate64")(fd, bytes);
  if (result == 0 && NameOf(fd, name)) {
    Record(IoOp::kTruncate, name, static_cast<uint64_t>(bytes));
  }
  return result;
}

int ftruncate(int fd, off_t bytes) { return ftruncate64(fd, bytes); }

int unlink(const char* path) {
  const std::lock_guard lock(Mutex());
  std::string name;
  const int result = Next<decltype(unlink)>("unlink")(path);
  if (result == 0 && NameOf(std::string(path), name)) Record(IoOp::kUnlink, name);
  return result;
}

int fsync(int fd) { return Sync(fd, "fsync"); }
int fdatasync(int fd) { return Sync(fd, "fdatasync"); }

}  // extern "C"

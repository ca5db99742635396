// Simulates a disk that fails, in a program that is started with this library in LD_PRELOAD:
//
// * SPARSEAGG_FAULT_DIR: only files in this folder, and the folder itself, are affected.
// * SPARSEAGG_FULL_FLAG: while this file exists, writes to paths that contain its text fail with
//   ENOSPC.
// * SPARSEAGG_STUCK_FLAG: while this file exists, syncs of paths that contain its text hang.
// * SPARSEAGG_SYNC_FAILS: the n-th fsync or fdatasync, from 1, fails with EIO. Later ones succeed,
//   as on Linux.
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "tests/support/interpose.h"

namespace {

using sparseagg::testing::Next;
using sparseagg::testing::PathOf;

// Returns whether the file is in the folder and its path contains `text`.
bool Concerned(int fd, const char* text = "") {
  const char* folder = std::getenv("SPARSEAGG_FAULT_DIR");
  if (folder == nullptr) return false;
  const std::string path = PathOf(fd);
  return path.starts_with(folder) && path.find(text) != std::string::npos;
}

// Returns whether the file that the variable names exists, and the path of `fd` contains its text.
bool IsFlagged(const char* variable, int fd) {
  const char* flag = std::getenv(variable);
  const int flag_fd = flag == nullptr ? -1 : open(flag, O_RDONLY | O_CLOEXEC);
  if (flag_fd < 0) return false;
  char text[64] = {};
  const ssize_t size = read(flag_fd, text, sizeof(text) - 1);
  close(flag_fd);
  return size >= 0 && Concerned(fd, text);
}

bool Full(int fd) { return IsFlagged("SPARSEAGG_FULL_FLAG", fd); }

bool SyncFails(int fd) {
  while (IsFlagged("SPARSEAGG_STUCK_FLAG", fd)) pause();
  static std::atomic<long> syncs = 0;
  const char* which = std::getenv("SPARSEAGG_SYNC_FAILS");
  return which != nullptr && Concerned(fd) && ++syncs == std::atol(which);
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t bytes) {
  if (Full(fd)) {
    errno = ENOSPC;
    return -1;
  }
  return Next<decltype(write)>("write")(fd, data, bytes);
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  if (Full(fd)) {
    errno = ENOSPC;
    return -1;
  }
  return Next<decltype(writev)>("writev")(fd, parts, count);
}

ssize_t pwrite64(int fd, const void* data, size_t bytes, off64_t offset) {
  if (Full(fd)) {
    errno = ENOSPC;
    return -1;
  }
  return Next<decltype(pwrite64)>("pwrite64")(fd, data, bytes, offset);
}

ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  return pwrite64(fd, data, bytes, offset);
}

int fsync(int fd) {
  if (SyncFails(fd)) {
    errno = EIO;
    return -1;
  }
  return Next<decltype(fsync)>("fsync")(fd);
}

int fdatasync(int fd) {
  if (SyncFails(fd)) {
    errno = EIO;
    return -1;
  }
  return Next<decltype(fdatasync)>("fdatasync")(fd);
}

}  // extern "C"

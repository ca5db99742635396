// A disk that fails, for a program that is started with this library in LD_PRELOAD:
//
//   SPARSEAGG_FAULT_DIR   faults concern regular files below this folder, and the folder itself
//   SPARSEAGG_FULL_FLAG   while this file exists, writes to paths that hold its text fail with
//   ENOSPC SPARSEAGG_SYNC_FAILS  the n-th fsync or fdatasync, from 1, fails with EIO; later ones
//   succeed, as
//                         Linux lets them
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

template <class Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Whether the file lies below the folder, and its path holds `text`.
bool Concerned(int fd, const char* text = "") {
  const char* folder = std::getenv("SPARSEAGG_FAULT_DIR");
  if (folder == nullptr) return false;
  char link[64];
  char path[PATH_MAX + 1] = {};
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  if (readlink(link, path, PATH_MAX) < 0) return false;
  return std::strncmp(path, folder, std::strlen(folder)) == 0 && std::strstr(path, text) != nullptr;
}

bool Full(int fd) {
  const char* flag = std::getenv("SPARSEAGG_FULL_FLAG");
  const int flag_fd = flag == nullptr ? -1 : open(flag, O_RDONLY | O_CLOEXEC);
  if (flag_fd < 0) return false;
  char text[64] = {};
  const ssize_t size = read(flag_fd, text, sizeof(text) - 1);
  close(flag_fd);
  return size >= 0 && Concerned(fd, text);
}

bool SyncFails(int fd) {
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

#include "service/store/files/data_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/store/files/fatal.h"
#include "service/store/files/payload_files.h"
#include "service/store/store_errors.h"

namespace sparseagg {
namespace {

// A few commits of one page each.
constexpr off_t kReserveBytes = off_t{1} << 17;
constexpr off_t kReserveBytesMin = off_t{1} << 15;

absl::Status Unusable(const std::string& path, const char* why) {
  return MakeError(absl::StatusCode::kFailedPrecondition, "STORE_UNUSABLE",
                   absl::StrCat("cannot use the data directory ", path, ": ", why));
}

absl::Status Unusable(const std::string& path, int error) {
  return Unusable(path, std::strerror(error));
}

// Refuses a virtual file system of the kernel, such as /proc. It allows root everything and then
// refuses to create a file, as if the folder did not exist.
absl::Status CheckHoldsFiles(const std::string& path, const std::string& folder) {
  struct statvfs disk = {};
  if (statvfs(folder.c_str(), &disk) != 0 || disk.f_blocks > 0) return absl::OkStatus();
  return Unusable(path, "its file system cannot hold files, like /proc and /sys");
}

// Returns the parent directory of `path`.
std::string FolderOf(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Syncs the directory's entry in its parent, after resolving links.
void SyncNameOf(const std::string& path) {
  std::error_code error;
  const std::string parent = std::filesystem::canonical(path, error).parent_path();
  // A parent that this user may not read belongs to another user, who has created the directory.
  if (access(parent.c_str(), R_OK) == 0) SyncFolder(parent);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataDirectory>> DataDirectory::Take(const std::string& path,
                                                                   uint64_t free_bytes_min) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    const int error = errno;
    SPARSEAGG_RETURN_IF_ERROR(CheckHoldsFiles(path, FolderOf(path)));
    return MakeError(
        absl::StatusCode::kFailedPrecondition, "STORE_UNUSABLE",
        absl::StrCat("cannot create the data directory ", path, ": ", std::strerror(error)));
  }
  const std::string file = absl::StrCat(path, "/LOCK");
  const int lock = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) {
    const int error = errno;
    SPARSEAGG_RETURN_IF_ERROR(CheckHoldsFiles(path, path));
    return MakeError(absl::StatusCode::kFailedPrecondition, "STORE_UNUSABLE",
                     absl::StrCat("cannot write ", file, ": ", std::strerror(error)));
  }
  std::unique_ptr<DataDirectory> directory(new DataDirectory(path, free_bytes_min, lock));
  if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
    SyncNameOf(path);
    return directory;
  }
  if (errno != EWOULDBLOCK) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "STORE_UNUSABLE",
                     absl::StrCat("cannot lock ", file, ": ", std::strerror(errno)));
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, "STORE_IN_USE",
                   absl::StrCat("another process uses the data directory ", path,
                                "; stop it, or give this one a directory of its own"));
}

absl::Status DataDirectory::Check(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) return Unusable(path, errno);
    const std::string folder = FolderOf(path);
    SPARSEAGG_RETURN_IF_ERROR(CheckHoldsFiles(path, folder));
    const bool can_be_made = access(folder.c_str(), W_OK | X_OK) == 0;
    return can_be_made ? absl::OkStatus() : Unusable(path, errno);
  }
  if (!S_ISDIR(status.st_mode)) return Unusable(path, ENOTDIR);
  SPARSEAGG_RETURN_IF_ERROR(CheckHoldsFiles(path, path));
  if (access(path.c_str(), R_OK | W_OK | X_OK) != 0) return Unusable(path, errno);
  const std::string lock = absl::StrCat(path, "/LOCK");
  const bool usable = access(lock.c_str(), R_OK | W_OK) == 0 || errno == ENOENT;
  return usable ? absl::OkStatus() : Unusable(path, errno);
}

DataDirectory::~DataDirectory() { close(lock_); }

absl::Status DataDirectory::CheckFreeSpace() const {
  struct statvfs disk = {};
  if (statvfs(path_.c_str(), &disk) != 0) {
    const int error = errno;
    CheckStillPresent();
    return StoreBusy(absl::StrCat("the free space on the disk of the data directory ", path_,
                                  " cannot be read: ", std::strerror(error)));
  }
  const uint64_t free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (free_bytes >= free_bytes_min_) return absl::OkStatus();
  return StoreFull(absl::StrCat("the disk of the data directory has ", free_bytes,
                                " bytes free, below store-free-bytes-min = ", free_bytes_min_,
                                "; free some space there"));
}

void DataDirectory::KeepReserve() const {
  struct stat lock = {};
  if (fstat(lock_, &lock) != 0 || lock.st_size >= kReserveBytes) return;
  for (off_t bytes = kReserveBytes; bytes > lock.st_size && bytes >= kReserveBytesMin; bytes /= 2) {
    if (posix_fallocate(lock_, 0, bytes) == 0) return;
  }
}

void DataDirectory::FreeReserve() const {
  // Without it the start fails as it would have failed before.
  if (ftruncate(lock_, 0) != 0) return;
}

void DataDirectory::Pin(std::span<const char* const> names) {
  std::vector<std::string> paths = {path_};
  for (const char* name : names) paths.push_back(absl::StrCat(path_, "/", name));
  for (std::string& path : paths) {
    struct stat found = {};
    if (stat(path.c_str(), &found) != 0) continue;
    pinned_.push_back({std::move(path), found.st_dev, found.st_ino});
  }
}

void DataDirectory::CheckStillPresent() const {
  for (const Pinned& pinned : pinned_) {
    struct stat found = {};
    if (stat(pinned.path.c_str(), &found) != 0) {
      EndProcess(pinned.path, absl::StrCat("it was deleted or moved while the server was running: ",
                                           std::strerror(errno)));
    }
    if (found.st_dev != pinned.device || found.st_ino != pinned.inode) {
      EndProcess(pinned.path, "it was replaced while the server was running");
    }
  }
}

}  // namespace sparseagg

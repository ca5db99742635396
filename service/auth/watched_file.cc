#include "service/auth/watched_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {
namespace {

constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;

absl::Status Unreadable(const std::string& path, const std::string& why) {
  return MakeError(absl::StatusCode::kNotFound, "CREDENTIALS_UNREADABLE",
                   absl::StrCat("cannot read ", path, ": ", why));
}

class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
};

}  // namespace

std::optional<WatchedFile::Stamp> WatchedFile::StampOf(int file) {
  struct stat status = {};
  if (fstat(file, &status) != 0) return std::nullopt;
  return Stamp{
      .device = status.st_dev,
      .inode = status.st_ino,
      .size = static_cast<uint64_t>(status.st_size),
      .modified_ns = status.st_mtim.tv_sec * kNanosecondsPerSecond + status.st_mtim.tv_nsec,
      .changed_ns = status.st_ctim.tv_sec * kNanosecondsPerSecond + status.st_ctim.tv_nsec};
}

absl::StatusOr<std::optional<std::string>> WatchedFile::ReadIfChanged() {
  const OpenFile file(path_);
  if (file.descriptor() < 0) return Unreadable(path_, std::strerror(errno));
  const std::optional<Stamp> stamp = StampOf(file.descriptor());
  if (stamp.has_value() && stamp == seen_) return std::nullopt;
  std::string text;
  char buffer[1 << 16];
  while (true) {
    const ssize_t bytes = read(file.descriptor(), buffer, sizeof(buffer));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return Unreadable(path_, std::strerror(errno));
    if (bytes == 0) break;
    text.append(buffer, static_cast<size_t>(bytes));
    if (text.size() > kBytesMax) return Unreadable(path_, "it has more than 64 MiB");
  }
  seen_ = stamp;
  return text;
}

}  // namespace sparseagg

// A small text file that is read again when it changes. Credentials and keys are replaced while the
// server runs.
#ifndef SPARSEAGG_SERVICE_AUTH_WATCHED_FILE_H_
#define SPARSEAGG_SERVICE_AUTH_WATCHED_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace sparseagg {

// Thread-compatible.
class WatchedFile {
 public:
  explicit WatchedFile(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }

  // Returns the text if the file has changed since the last call, or at the first call; otherwise
  // nullopt. NOT_FOUND (CREDENTIALS_UNREADABLE), which names the file, at every call while it
  // cannot be read.
  absl::StatusOr<std::optional<std::string>> ReadIfChanged();

  static constexpr size_t kBytesMax = size_t{64} << 20;

 private:
  // Distinguishes the versions of a file, whether it is replaced or written in place.
  struct Stamp {
    uint64_t device = 0;
    uint64_t inode = 0;
    uint64_t size = 0;
    int64_t modified_ns = 0;
    int64_t changed_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  static std::optional<Stamp> StampOf(int file);

  const std::string path_;
  std::optional<Stamp> seen_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUTH_WATCHED_FILE_H_

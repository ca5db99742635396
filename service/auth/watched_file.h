// A small text file that is read again when it changes: credentials and keys are replaced while the
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

  // The text, when it was not read before or the file is another one since; else nothing.
  // NOT_FOUND (CREDENTIALS_UNREADABLE) names the file, each time anew until it can be read.
  absl::StatusOr<std::optional<std::string>> ReadIfChanged();

  static constexpr size_t kBytesMax = size_t{64} << 20;

 private:
  // What tells one version of a file from the next, if it is replaced or written in place.
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

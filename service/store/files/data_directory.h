// The directory of a durable store: held by one process at a time, on a disk with room to go on,
// and still where it was when the store was opened.
#ifndef SPARSEAGG_SERVICE_STORE_FILES_DATA_DIRECTORY_H_
#define SPARSEAGG_SERVICE_STORE_FILES_DATA_DIRECTORY_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sparseagg {

// Thread-safe. Let go when destroyed, and by the system when the process ends, however it ends.
class DataDirectory {
 public:
  // Makes the directory when it is not there, readable by its owner only, and its name durable.
  // FAILED_PRECONDITION: STORE_IN_USE, STORE_UNUSABLE.
  static absl::StatusOr<std::unique_ptr<DataDirectory>> Take(const std::string& path,
                                                             uint64_t free_bytes_min);
  // Whether Take() could use the directory once nobody else does, as far as can be told without
  // making anything. FAILED_PRECONDITION (STORE_UNUSABLE).
  static absl::Status Check(const std::string& path);
  ~DataDirectory();
  DataDirectory(const DataDirectory&) = delete;
  DataDirectory& operator=(const DataDirectory&) = delete;

  const std::string& path() const { return path_; }
  // RESOURCE_EXHAUSTED (STORE_FULL) while the disk has less than `free_bytes_min`; UNAVAILABLE
  // (STORE_BUSY) when the disk does not tell.
  absl::Status CheckRoom() const;

  // Remembers the directory and those of these files in it that exist, for CheckInPlace(). Call it
  // once, when the store has opened them and before others use this.
  void Pin(std::span<const char* const> names);
  // Ends the process (fatal.h) when the directory, or a pinned file, is no longer found under its
  // name: it was deleted, moved or replaced. What is written to it then is lost with the process,
  // although writing and syncing go on without an error. Costs a stat() for each of them.
  void CheckInPlace() const;

 private:
  struct Pinned {
    std::string path;
    dev_t device;
    ino_t inode;
  };

  DataDirectory(std::string path, uint64_t free_bytes_min, int lock)
      : path_(std::move(path)), free_bytes_min_(free_bytes_min), lock_(lock) {}

  const std::string path_;
  const uint64_t free_bytes_min_;
  const int lock_;
  std::vector<Pinned> pinned_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_FILES_DATA_DIRECTORY_H_

// The directory of a durable store. It is locked by one process at a time; this class checks that
// its disk has free space and that its files are still where they were when the store was opened.
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

// Thread-safe. The destructor releases the lock, and so does the system when the process ends in
// any way.
class DataDirectory {
 public:
  // Locks the directory. Creates it, readable by its owner only, if it does not exist, and syncs
  // its name. Errors: FAILED_PRECONDITION (STORE_IN_USE, STORE_UNUSABLE).
  static absl::StatusOr<std::unique_ptr<DataDirectory>> Take(const std::string& path,
                                                             uint64_t free_bytes_min);
  // Returns FAILED_PRECONDITION (STORE_UNUSABLE) if Take() could not use the directory even when no
  // other process does. Creates nothing, so it may miss some errors.
  static absl::Status Check(const std::string& path);
  ~DataDirectory();
  DataDirectory(const DataDirectory&) = delete;
  DataDirectory& operator=(const DataDirectory&) = delete;

  const std::string& path() const { return path_; }
  // Returns RESOURCE_EXHAUSTED (STORE_FULL) while the disk has less than `free_bytes_min` free, and
  // UNAVAILABLE (STORE_BUSY) if its free space cannot be read.
  absl::Status CheckFreeSpace() const;

  // A start on a full disk finds room for its first commit by the reserve, bytes that the lock's
  // file takes. KeepReserve() takes them unless they are taken, or as many as the disk has.
  void KeepReserve() const;
  void FreeReserve() const;

  // Remembers the identity of the directory, and of those of these files in it that exist, for
  // CheckStillPresent(). Call it once, after the store has opened them and before other threads use
  // this object.
  void Pin(std::span<const char* const> names);
  // Ends the process (fatal.h) if the directory or a pinned file is no longer found under its name,
  // because it was deleted, moved or replaced. Writes to such a file succeed, and so do syncs, but
  // the data is lost with the process. Costs one stat() for each pinned file.
  void CheckStillPresent() const;

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

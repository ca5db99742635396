// The directory of a durable store: held by one process at a time, on a disk with room to go on.
#ifndef SPARSEAGG_SERVICE_STORE_DATA_DIRECTORY_H_
#define SPARSEAGG_SERVICE_STORE_DATA_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <string>

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
  // RESOURCE_EXHAUSTED (STORE_FULL) while the disk has less than `free_bytes_min`.
  absl::Status CheckRoom() const;

 private:
  DataDirectory(std::string path, uint64_t free_bytes_min, int lock)
      : path_(std::move(path)), free_bytes_min_(free_bytes_min), lock_(lock) {}

  const std::string path_;
  const uint64_t free_bytes_min_;
  const int lock_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_DATA_DIRECTORY_H_

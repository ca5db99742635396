// Reading and writing files as the store needs it: errors that a caller can wait out are statuses,
// others end the process (fatal.h).
#ifndef SPARSEAGG_SERVICE_STORE_FILES_FILE_IO_H_
#define SPARSEAGG_SERVICE_STORE_FILES_FILE_IO_H_

#include <unistd.h>

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace sparseagg {

// Closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

// The answer to an errno that is not the disk's: RESOURCE_EXHAUSTED (STORE_FULL), UNAVAILABLE
// (STORE_BUSY); or the end of the process.
absl::Status RefusalOf(const std::string& path, int error);

// The answer to an errno of reading: UNAVAILABLE (STORE_BUSY), FAILED_PRECONDITION (STORE_UNUSABLE)
// without permission, otherwise DATA_LOSS (STORE_CORRUPT).
absl::Status UnreadableOf(const std::string& path, int error);

// The errno of the first write that failed, or 0.
int WriteAll(int fd, std::span<const std::string_view> pieces);
inline int WriteAll(int fd, std::string_view data) { return WriteAll(fd, std::span(&data, 1)); }

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_FILES_FILE_IO_H_

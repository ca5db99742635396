// File I/O for the store. Errors that may pass, such as a full disk, are returned as a status;
// other write errors end the process (fatal.h).
#ifndef SPARSEAGG_SERVICE_STORE_FILES_FILE_IO_H_
#define SPARSEAGG_SERVICE_STORE_FILES_FILE_IO_H_

#include <unistd.h>

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace sparseagg {

// A file descriptor that the destructor closes.
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

// Returns the status for an errno of creating or writing a file: RESOURCE_EXHAUSTED (STORE_FULL) or
// UNAVAILABLE (STORE_BUSY). Ends the process for any other errno.
absl::Status WriteError(const std::string& path, int error);

// Returns the status for an errno of reading a file: UNAVAILABLE (STORE_BUSY) without a free
// descriptor or memory, FAILED_PRECONDITION (STORE_UNUSABLE) without permission, otherwise
// DATA_LOSS (STORE_CORRUPT).
absl::Status ReadError(const std::string& path, int error);

// Writes all pieces. Returns the errno of the first failed write, or 0.
int WriteAll(int fd, std::span<const std::string_view> pieces);
inline int WriteAll(int fd, std::string_view data) { return WriteAll(fd, std::span(&data, 1)); }

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_FILES_FILE_IO_H_

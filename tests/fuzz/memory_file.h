// The bytes of the input as a file with a path, in memory: for readers that take paths.
#ifndef SPARSEAGG_TESTS_FUZZ_MEMORY_FILE_H_
#define SPARSEAGG_TESTS_FUZZ_MEMORY_FILE_H_

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "tests/fuzz/fuzz_input.h"

namespace sparseagg::fuzz {

class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    Require(fd_ >= 0 &&
                write(fd_, content.data(), content.size()) == static_cast<ssize_t>(content.size()),
            "no file in memory");
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  const int fd_;
};

}  // namespace sparseagg::fuzz

#endif  // SPARSEAGG_TESTS_FUZZ_MEMORY_FILE_H_

#include "service/store/files/direct_write.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "service/store/files/file_io.h"

namespace sparseagg {
namespace {

constexpr size_t kAlignment = 4096;  // of memory, offsets and lengths, as devices may require
constexpr size_t kBufferBytes = size_t{1} << 20;

bool SetDirect(int fd, bool direct) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

// Writes `data` at `offset` of the file. Falls back to the page cache if direct I/O fails with
// EINVAL.
int WriteAt(int fd, size_t offset, std::string_view data) {
  const int error = WriteAll(fd, data);
  if (error != EINVAL || !SetDirect(fd, false)) return error;
  const off_t end = lseek(fd, 0, SEEK_CUR);
  return end < 0 ? errno : WriteAll(fd, data.substr(static_cast<size_t>(end) - offset));
}

}  // namespace

int WriteAllDirect(int fd, std::span<const std::string_view> pieces) {
  const std::unique_ptr<char, void (*)(void*)> buffer(
      static_cast<char*>(std::aligned_alloc(kAlignment, kBufferBytes)), &std::free);
  if (buffer == nullptr || !SetDirect(fd, true)) return WriteAll(fd, pieces);
  size_t offset = 0;
  size_t filled = 0;
  for (std::string_view piece : pieces) {
    while (!piece.empty()) {
      const size_t size = std::min(piece.size(), kBufferBytes - filled);
      std::memcpy(buffer.get() + filled, piece.data(), size);
      filled += size;
      piece.remove_prefix(size);
      if (filled < kBufferBytes) continue;
      if (const int error = WriteAt(fd, offset, {buffer.get(), filled}); error != 0) return error;
      offset += filled;
      filled = 0;
    }
  }
  const size_t whole = filled / kAlignment * kAlignment;
  if (whole > 0) {
    if (const int error = WriteAt(fd, offset, {buffer.get(), whole}); error != 0) return error;
  }
  if (!SetDirect(fd, false)) return errno;
  return WriteAll(fd, std::string_view(buffer.get() + whole, filled - whole));
}

}  // namespace sparseagg

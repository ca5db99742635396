#include "service/store/files/file_io.h"

#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/store/files/fatal.h"
#include "service/store/store_errors.h"

namespace sparseagg {
namespace {

// Limits of one system call: a gRPC message consists of pieces of 8 KiB and more.
constexpr size_t kWriteBytes = size_t{4} << 20;
constexpr int kWritePieces = 512;

bool IsFull(int error) { return error == ENOSPC || error == EDQUOT; }
bool IsShortage(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

absl::Status Shortage(int error) {
  return StoreBusy(absl::StrCat("the server cannot open another file: ", std::strerror(error)));
}

}  // namespace

absl::Status WriteError(const std::string& path, int error) {
  if (IsFull(error)) return StoreFull();
  if (IsShortage(error)) return Shortage(error);
  EndProcess(path, std::strerror(error));
}

absl::Status ReadError(const std::string& path, int error) {
  if (IsShortage(error)) return Shortage(error);
  const std::string what = absl::StrCat(path, " ", std::strerror(error));
  if (error != EACCES && error != EPERM) return StoreCorrupt(what);
  return MakeError(absl::StatusCode::kFailedPrecondition, "STORE_UNUSABLE",
                   absl::StrCat("cannot read ", what));
}

int WriteAll(int fd, std::span<const std::string_view> pieces) {
  std::array<iovec, kWritePieces> parts;
  size_t sent = 0;  // bytes of the first piece that are written
  while (!pieces.empty()) {
    int count = 0;
    uint64_t bytes = 0;
    for (const std::string_view piece : pieces) {
      if (count == kWritePieces || bytes >= kWriteBytes) break;
      const std::string_view rest = count == 0 ? piece.substr(sent) : piece;
      parts[count++] = {const_cast<char*>(rest.data()), rest.size()};
      bytes += rest.size();
    }
    const ssize_t written = writev(fd, parts.data(), count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    sent += static_cast<size_t>(written);
    while (!pieces.empty() && sent >= pieces.front().size()) {
      sent -= pieces.front().size();
      pieces = pieces.subspan(1);
    }
  }
  return 0;
}

}  // namespace sparseagg

#include "service/store/file_io.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "service/store/fatal.h"
#include "service/store/store_errors.h"

namespace sparseagg {
namespace {

constexpr size_t kWriteBytes = size_t{1} << 20;

bool IsFull(int error) { return error == ENOSPC || error == EDQUOT; }
bool IsShortage(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

}  // namespace

absl::Status RefusalOf(const std::string& path, int error) {
  if (IsFull(error)) return StoreFull();
  if (IsShortage(error)) {
    return StoreBusy(absl::StrCat("the server cannot open another file: ", std::strerror(error)));
  }
  EndProcess(path, std::strerror(error));
}

int WriteAll(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t written = write(fd, data.data(), std::min(data.size(), kWriteBytes));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    data.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace sparseagg

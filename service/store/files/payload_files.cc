#include "service/store/files/payload_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/store/files/direct_write.h"
#include "service/store/files/fatal.h"
#include "service/store/files/file_io.h"
#include "service/store/store_errors.h"

namespace sparseagg {
namespace {

absl::Status Damaged(const std::string& path, std::string_view how) {
  return StoreCorrupt(absl::StrCat(path, " ", std::string(how)));
}

// Returns 17 for the name "17" + suffix, and nullopt for any other form.
std::optional<uint64_t> NumberOf(const std::filesystem::path& path, std::string_view suffix) {
  const std::string name = path.filename().string();
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const std::string_view rest(end, name.data() + name.size() - end);
  if (error != std::errc() || rest != suffix) return std::nullopt;
  return number;
}

}  // namespace

void SyncFolder(const std::string& folder) {
  const Descriptor fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0 || fsync(fd.get()) != 0) EndProcess(folder, std::strerror(errno));
}

absl::StatusOr<std::unique_ptr<PayloadFiles>> PayloadFiles::Open(const std::string& folder,
                                                                 FailpointHook failpoints) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "STORE_UNUSABLE",
                     absl::StrCat("cannot create the folder ", folder, ": ", std::strerror(errno)));
  }
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "STORE_UNUSABLE",
                     absl::StrCat("cannot read the folder ", folder, ": ", std::strerror(errno)));
  }
  std::unique_ptr<PayloadFiles> files(new PayloadFiles(folder, fd, std::move(failpoints)));
  for (const uint64_t number : files->List()) files->SkipTo(number);
  return files;
}

PayloadFiles::~PayloadFiles() { close(fd_); }

void PayloadFiles::Sync() const {
  if (fsync(fd_) != 0) EndProcess(folder_, std::strerror(errno));
  failpoints_.Pass(Failpoint::kNamesSynced);
}

std::string PayloadFiles::PathOf(uint64_t number) const {
  return absl::StrCat(folder_, "/", number);
}

absl::StatusOr<uint64_t> PayloadFiles::Write(std::span<const std::string_view> pieces) {
  const uint64_t number = NewNumber();
  const std::string path = PathOf(number);
  const Descriptor fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd.get() < 0) return WriteError(path, errno);
  const absl::Status written = WriteAndSync(fd.get(), path, pieces);
  if (written.ok()) return number;
  unlink(path.c_str());
  return written;
}

absl::Status PayloadFiles::WriteAndSync(int fd, const std::string& path,
                                        std::span<const std::string_view> pieces) {
  const int error = WriteAllDirect(fd, pieces);
  if (error != 0) return WriteError(path, error);
  SPARSEAGG_RETURN_IF_ERROR(failpoints_.Check(Failpoint::kPayloadWritten));
  if (fdatasync(fd) != 0) return WriteError(path, errno);
  return failpoints_.Check(Failpoint::kPayloadSynced);
}

absl::StatusOr<std::string> PayloadFiles::Read(uint64_t number, uint64_t bytes) const {
  const std::string path = PathOf(number);
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return ReadError(path, errno);
  struct stat found = {};
  if (fstat(fd.get(), &found) != 0) return ReadError(path, errno);
  if (static_cast<uint64_t>(found.st_size) != bytes) {
    return Damaged(path,
                   absl::StrCat("has ", found.st_size, " bytes, but ", bytes, " were stored"));
  }
  std::string data;
  try {
    data.resize(bytes);
  } catch (const std::bad_alloc&) {
    return MakeError(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY",
                     absl::StrCat("no memory to read the ", bytes, " bytes of ", path));
  }
  for (uint64_t at = 0; at < bytes;) {
    const ssize_t got = pread(fd.get(), data.data() + at, bytes - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) return Damaged(path, "became shorter while it was read");
    if (got < 0) return ReadError(path, errno);
    at += static_cast<uint64_t>(got);
  }
  return data;
}

void PayloadFiles::Delete(uint64_t number) const {
  unlink(PathOf(number).c_str());
  failpoints_.Pass(Failpoint::kPayloadDeleted);
}

std::vector<uint64_t> PayloadFiles::List(std::string_view suffix) const {
  std::vector<uint64_t> numbers;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    if (const auto number = NumberOf(entry.path(), suffix)) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace sparseagg

#include "client/io/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/io/file_error.h"

namespace sparseagg::client {

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path) {
  std::string temporary_path = absl::StrCat(path, ".part-", getpid());
  std::FILE* file = std::fopen(temporary_path.c_str(), "wb");
  if (file == nullptr) {
    return FileUnusable(path, absl::StrCat("cannot be written: ", std::strerror(errno)));
  }
  return std::unique_ptr<OutputFile>(new OutputFile(path, std::move(temporary_path), file));
}

OutputFile::~OutputFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  unlink(temporary_path_.c_str());
}

absl::Status OutputFile::Write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
    return FileUnusable(path_, absl::StrCat("cannot be written: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Commit() {
  const int closed = std::fclose(std::exchange(file_, nullptr));
  if (closed != 0 || std::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    unlink(temporary_path_.c_str());
    return FileUnusable(path_, absl::StrCat("cannot be written: ", std::strerror(error)));
  }
  return absl::OkStatus();
}

}  // namespace sparseagg::client

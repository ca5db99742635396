#include "client/io/line_reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/io/file_error.h"

namespace sparseagg::client {

absl::StatusOr<LineReader> LineReader::Open(const std::string& path) {
  LineReader reader;
  reader.path_ = path;
  reader.file_.reset(std::fopen(path.c_str(), "rb"));
  struct stat info {};
  if (reader.file_ == nullptr || fstat(fileno(reader.file_.get()), &info) != 0) {
    return FileUnusable(path, absl::StrCat("cannot be read: ", std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) return FileUnusable(path, "is not a regular file");
  reader.file_bytes_ = static_cast<uint64_t>(info.st_size);
  // A small file needs no large buffer; a line that may be read always fits, with its end.
  reader.buffer_.resize(
      std::clamp<uint64_t>(reader.file_bytes_ + 1, kLineBytesMax + 2, uint64_t{1} << 20));
  return reader;
}

absl::StatusOr<bool> LineReader::Next(std::string_view& line) {
  ++line_;
  for (;;) {
    const char* from = buffer_.data() + begin_;
    const size_t available = end_ - begin_;
    const void* newline = available == 0 ? nullptr : std::memchr(from, '\n', available);
    size_t length = newline == nullptr
                        ? available
                        : static_cast<size_t>(static_cast<const char*>(newline) - from);
    if (length > kLineBytesMax) {
      return MalformedFile(path_, where(),
                           absl::StrCat("is longer than ", kLineBytesMax, " bytes"));
    }
    const bool at_end = newline == nullptr && std::feof(file_.get()) != 0;
    if (newline != nullptr || at_end) {
      begin_ += length + (newline != nullptr ? 1 : 0);
      if (at_end && available == 0) return false;
      if (length > 0 && from[length - 1] == '\r') --length;
      line = std::string_view(from, length);
      return true;
    }
    std::memmove(buffer_.data(), from, available);
    begin_ = 0;
    end_ = available +
           std::fread(buffer_.data() + available, 1, buffer_.size() - available, file_.get());
    if (std::ferror(file_.get()) != 0) {
      return FileUnusable(path_, absl::StrCat("cannot be read: ", std::strerror(errno)));
    }
  }
}

std::string LineReader::where() const { return absl::StrCat("line ", line_); }

size_t SplitWords(std::string_view line, std::span<std::string_view> words) {
  constexpr std::string_view kBlanks = " \t\r";
  size_t count = 0;
  for (size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    if (count + 1 == words.size()) {
      const size_t last = line.find_last_not_of(kBlanks);
      words[count++] = line.substr(at, last - at + 1);
      break;
    }
    const size_t end = line.find_first_of(kBlanks, at);
    words[count++] = line.substr(at, end == std::string_view::npos ? end : end - at);
    at = end == std::string_view::npos ? end : line.find_first_not_of(kBlanks, end);
  }
  return count;
}

}  // namespace sparseagg::client

#include "client/io/line_reader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/io/file_error.h"

namespace sparseagg::client {
namespace {

constexpr char kDosEndOfFile = '\x1A';

// The position of the first `c` in text[begin, end); `end` if there is none.
size_t Find(const std::vector<char>& text, size_t begin, size_t end, char c) {
  if (begin == end) return end;
  const void* found = std::memchr(text.data() + begin, c, end - begin);
  return found == nullptr ? end
                          : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

}  // namespace

absl::StatusOr<LineReader> LineReader::Open(const std::string& path, uint64_t unpacked_bytes_max) {
  SPARSEAGG_ASSIGN_OR_RETURN(TextFile file, TextFile::Open(path, unpacked_bytes_max));
  LineReader reader(std::move(file));
  // A small file needs no large buffer. A line of the largest size always fits, with its end.
  reader.buffer_.resize(
      std::clamp<uint64_t>(reader.file_bytes() + 1, kLineBytesMax + 3, uint64_t{1} << 20));
  return reader;
}

absl::StatusOr<bool> LineReader::Next(std::string_view& line) {
  ++line_;
  for (;;) {
    if (newline_ < begin_) newline_ = Find(buffer_, begin_, end_, '\n');
    const size_t limit = std::min(newline_, begin_ + kLineBytesMax + 1);
    const size_t stop = Find(buffer_, begin_, limit, '\r');
    if (stop - begin_ > kLineBytesMax) {
      return MalformedFile(path(), where(),
                           absl::StrCat("is longer than ", kLineBytesMax, " bytes"));
    }
    // If an LF follows the CR, it belongs to this line's end.
    const bool known = stop == newline_ ? stop < end_ : stop + 1 < end_;
    if (known) {
      const bool has_both = stop < newline_ && buffer_[stop + 1] == '\n';
      line = Take(stop - begin_, has_both ? 2 : 1);
      return true;
    }
    if (at_end_) {
      size_t end = stop;
      while (stop == end_ && end > begin_ && buffer_[end - 1] == kDosEndOfFile) --end;
      if (end == begin_ && stop == end_) return false;
      line = Take(end - begin_, end_ - end);
      return true;
    }
    SPARSEAGG_RETURN_IF_ERROR(Fill());
  }
}

std::string_view LineReader::Take(size_t length, size_t end_bytes) {
  const std::string_view line(buffer_.data() + begin_, length);
  begin_ += length + end_bytes;
  return line;
}

absl::Status LineReader::Fill() {
  const size_t available = end_ - begin_;
  std::memmove(buffer_.data(), buffer_.data() + begin_, available);
  const size_t room = buffer_.size() - available;
  SPARSEAGG_ASSIGN_OR_RETURN(const size_t got, file_.Read(buffer_.data() + available, room));
  at_end_ = got < room;
  newline_ = newline_ < end_ ? newline_ - begin_ : Find(buffer_, available, available + got, '\n');
  begin_ = 0;
  end_ = available + got;
  return absl::OkStatus();
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

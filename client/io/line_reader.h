// Lines of a text file, one at a time, with their numbers; memory is bounded whatever the file is.
#ifndef SPARSEAGG_CLIENT_IO_LINE_READER_H_
#define SPARSEAGG_CLIENT_IO_LINE_READER_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sparseagg::client {

// Thread-compatible.
class LineReader {
 public:
  // FILE_UNUSABLE when the file cannot be opened or is a folder.
  static absl::StatusOr<LineReader> Open(const std::string& path);

  // Reads the next line, without its end (LF or CR LF), into `line`, which is valid until the next
  // call; false at the end of the file. MALFORMED_FILE for a line longer than kLineBytesMax.
  absl::StatusOr<bool> Next(std::string_view& line);

  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return file_bytes_; }
  // "line 7": of the line read last.
  std::string where() const;

  // Longer than any format here allows (Matrix Market: 1024), short enough to hold.
  static constexpr size_t kLineBytesMax = 64 << 10;

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
  uint64_t file_bytes_ = 0;
  std::vector<char> buffer_;  // [begin_, end_) is read and not yet given out
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t line_ = 0;
};

// The words of a line, separated by blanks; the last one takes what is left when there are more
// than `words.size()`. Returns their number.
size_t SplitWords(std::string_view line, std::span<std::string_view> words);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_IO_LINE_READER_H_

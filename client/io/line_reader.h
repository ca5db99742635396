// Lines of a text file, one at a time, with their numbers; memory is bounded whatever the file is.
#ifndef SPARSEAGG_CLIENT_IO_LINE_READER_H_
#define SPARSEAGG_CLIENT_IO_LINE_READER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/io/text_file.h"

namespace sparseagg::client {

// Thread-compatible.
class LineReader {
 public:
  static constexpr uint64_t kTextBytesMax = uint64_t{16} << 30;

  // Opens a text file, packed by gzip or not. Errors as of TextFile::Open().
  static absl::StatusOr<LineReader> Open(const std::string& path,
                                         uint64_t unpacked_bytes_max = kTextBytesMax);

  // Reads the next line, without its end (LF, CR LF or CR), into `line`, which is valid until the
  // next call; false at the end of the file. The marks with which DOS ends a file (Ctrl-Z) are left
  // out there. MALFORMED_FILE for a line longer than kLineBytesMax.
  absl::StatusOr<bool> Next(std::string_view& line);

  const std::string& path() const { return file_.path(); }
  // Of the text, unpacked.
  uint64_t file_bytes() const { return file_.bytes(); }
  // "line 7": of the line read last.
  std::string where() const;

  // Longer than any format here allows (Matrix Market: 1024), short enough to hold.
  static constexpr size_t kLineBytesMax = 64 << 10;

 private:
  explicit LineReader(TextFile file) : file_(std::move(file)) {}
  // Reads on behind what is in the buffer, which moves to its front.
  absl::Status Fill();
  // Takes a line of `length` bytes and its end from the front of the buffer.
  std::string_view Take(size_t length, size_t end_bytes);

  TextFile file_;
  std::vector<char> buffer_;  // [begin_, end_) is read and not yet given out
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t newline_ = 0;   // where the next LF of the buffer is, if not before begin_; end_: nowhere
  bool at_end_ = false;  // there is nothing behind the buffer
  uint64_t line_ = 0;
};

// The words of a line, separated by blanks; the last one takes what is left when there are more
// than `words.size()`. Returns their number.
size_t SplitWords(std::string_view line, std::span<std::string_view> words);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_IO_LINE_READER_H_

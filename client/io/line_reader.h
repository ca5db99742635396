// Reads a text file line by line, with line numbers and bounded memory.
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

  // Opens a text file, which may be compressed with gzip. Errors are those of TextFile::Open().
  static absl::StatusOr<LineReader> Open(const std::string& path,
                                         uint64_t unpacked_bytes_max = kTextBytesMax);

  // Reads the next line, without its end (LF, CR LF or CR), into `line`, which is valid until the
  // next call. Returns false at the end of the file, where Ctrl-Z, the end mark of DOS, is ignored.
  // MALFORMED_FILE for a line longer than kLineBytesMax.
  absl::StatusOr<bool> Next(std::string_view& line);

  const std::string& path() const { return file_.path(); }
  // The size of the uncompressed text.
  uint64_t file_bytes() const { return file_.bytes(); }
  // The position of the line read last: "line 7".
  std::string where() const;

  // Longer than any format here allows (Matrix Market: 1024), short enough to hold.
  static constexpr size_t kLineBytesMax = 64 << 10;

 private:
  explicit LineReader(TextFile file) : file_(std::move(file)) {}
  // Moves the unread bytes to the front of the buffer, and reads more behind them.
  absl::Status Fill();
  // Removes a line of `length` bytes and its end from the front of the unread bytes.
  std::string_view Take(size_t length, size_t end_bytes);

  TextFile file_;
  std::vector<char> buffer_;  // [begin_, end_) is read and not yet returned
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t newline_ = 0;   // position of the next LF, if not before begin_; end_: none
  bool at_end_ = false;  // the file has no bytes behind the buffer
  uint64_t line_ = 0;
};

// Splits a line at blanks and returns the number of words. The last of `words` gets the rest of the
// line if there are more than `words.size()`.
size_t SplitWords(std::string_view line, std::span<std::string_view> words);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_IO_LINE_READER_H_

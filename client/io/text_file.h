// Bytes of a text file, which may be packed by gzip.
#ifndef SPARSEAGG_CLIENT_IO_TEXT_FILE_H_
#define SPARSEAGG_CLIENT_IO_TEXT_FILE_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct z_stream_s;

namespace sparseagg::client {

// Reads a regular file from front to back. Content decides whether it is unpacked, and not the
// name: browsers unpack files and leave the name. Thread-compatible.
class TextFile {
 public:
  // FILE_UNUSABLE when the file cannot be opened or is not a regular one. A file of gzip is
  // unpacked once, and forgotten, to know its length: MALFORMED_FILE when it is damaged or cut off,
  // FILE_TOO_LARGE when it unpacks to more than `unpacked_bytes_max`.
  static absl::StatusOr<TextFile> Open(const std::string& path, uint64_t unpacked_bytes_max);

  // Reads `size` bytes, fewer only at the end of the file. Errors as above.
  absl::StatusOr<size_t> Read(char* out, size_t size);

  const std::string& path() const { return path_; }
  // Of the text, unpacked.
  uint64_t bytes() const { return bytes_; }

 private:
  struct FileCloser {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct InflateEnder {
    void operator()(z_stream_s* stream) const;
  };

  absl::StatusOr<size_t> ReadPlain(char* out, size_t size);
  absl::Status StartUnpacking(uint64_t unpacked_bytes_max);
  absl::Status Rewind();
  absl::Status FillInput();

  std::string path_;
  std::unique_ptr<std::FILE, FileCloser> file_;
  uint64_t bytes_ = 0;
  // Where the file is packed.
  std::unique_ptr<z_stream_s, InflateEnder> stream_;
  std::vector<char> input_;
  bool between_members_ = true;  // a file of gzip may be several, one behind the other
};

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_IO_TEXT_FILE_H_

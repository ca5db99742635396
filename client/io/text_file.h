// Reads the bytes of a text file, which may be compressed with gzip.
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

// Reads a regular file from front to back. The content, not the name, decides whether it is
// decompressed, because browsers decompress files and keep the name. Thread-compatible.
class TextFile {
 public:
  // FILE_UNUSABLE if the file cannot be opened or is not a regular one. A gzip file is decompressed
  // once to find its length: MALFORMED_FILE if it is damaged or truncated, FILE_TOO_LARGE if it
  // decompresses to more than `unpacked_bytes_max`.
  static absl::StatusOr<TextFile> Open(const std::string& path, uint64_t unpacked_bytes_max);

  // Reads `size` bytes, fewer only at the end of the file. Errors as above.
  absl::StatusOr<size_t> Read(char* out, size_t size);

  const std::string& path() const { return path_; }
  // The size of the uncompressed text.
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
  // For a compressed file.
  std::unique_ptr<z_stream_s, InflateEnder> stream_;
  std::vector<char> input_;
  bool between_members_ = true;  // a gzip file may have several members in a row
};

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_IO_TEXT_FILE_H_

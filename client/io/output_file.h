// A file that gets its name only when it is complete.
#ifndef SPARSEAGG_CLIENT_IO_OUTPUT_FILE_H_
#define SPARSEAGG_CLIENT_IO_OUTPUT_FILE_H_

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sparseagg::client {

// Writes "<path>.part-<process>" and renames it in Commit(). The destructor removes it if Commit()
// was not called. Errors are FILE_UNUSABLE and name the path. Thread-compatible.
class OutputFile {
 public:
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::string& temporary_path() const { return temporary_path_; }
  absl::Status Write(std::string_view bytes);
  // Closes the file and gives it its name, replacing an existing file.
  absl::Status Commit();

 private:
  OutputFile(std::string path, std::string temporary_path, std::FILE* file)
      : path_(std::move(path)), temporary_path_(std::move(temporary_path)), file_(file) {}

  std::string path_;
  std::string temporary_path_;
  std::FILE* file_;  // nullptr after Commit()
};

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_IO_OUTPUT_FILE_H_

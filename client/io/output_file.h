// A file that appears under its name only when it is complete.
#ifndef SPARSEAGG_CLIENT_IO_OUTPUT_FILE_H_
#define SPARSEAGG_CLIENT_IO_OUTPUT_FILE_H_

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sparseagg::client {

// Writes "<path>.part-<process>" and renames it on Commit(); removes it when destroyed before.
// Errors are FILE_UNUSABLE and name the path. Thread-compatible.
class OutputFile {
 public:
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::string& temporary_path() const { return temporary_path_; }
  absl::Status Write(std::string_view bytes);
  // Closes, and gives the file its name, in place of one that is there.
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

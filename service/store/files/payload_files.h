// Byte strings that are too large for the database: a file each, written once, synced before a row
// of the database names it, read whole, deleted. A file that no row names is left over from a
// crash.
#ifndef SPARSEAGG_SERVICE_STORE_FILES_PAYLOAD_FILES_H_
#define SPARSEAGG_SERVICE_STORE_FILES_PAYLOAD_FILES_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/store/failpoints.h"

namespace sparseagg {

// Makes the names in a folder durable. Ends the process when that fails (fatal.h).
void SyncFolder(const std::string& folder);

// Thread-safe, but for calls about the same file.
class PayloadFiles {
 public:
  // FAILED_PRECONDITION (STORE_UNUSABLE).
  static absl::StatusOr<std::unique_ptr<PayloadFiles>> Open(const std::string& folder,
                                                            FailpointHook failpoints = {});
  ~PayloadFiles();
  PayloadFiles(const PayloadFiles&) = delete;
  PayloadFiles& operator=(const PayloadFiles&) = delete;

  // Writes and syncs a new file, and returns its number, never 0. The name is durable after
  // Sync(). RESOURCE_EXHAUSTED (STORE_FULL), UNAVAILABLE (STORE_BUSY) when the process has too many
  // files open: nothing is left behind.
  absl::StatusOr<uint64_t> Write(std::span<const std::string_view> pieces);
  void Sync() const;

  // DATA_LOSS (STORE_CORRUPT) when the file is not there or not of `bytes` bytes. What can be
  // mended is no loss: UNAVAILABLE (STORE_BUSY) without a free descriptor, FAILED_PRECONDITION
  // (STORE_UNUSABLE) without permission.
  absl::StatusOr<std::string> Read(uint64_t number, uint64_t bytes) const;
  void Delete(uint64_t number) const;

  // For a file that is written by somebody else (partial_files.h).
  uint64_t NewNumber() { return ++last_; }
  // New numbers are higher: rows name this one, even if its file is lost.
  void SkipTo(uint64_t number) { last_ = std::max<uint64_t>(last_, number); }
  std::string PathOf(uint64_t number) const;
  // The numbers of the files, or of those beside them that are called by number and suffix;
  // ascending.
  std::vector<uint64_t> List(std::string_view suffix = "") const;

 private:
  PayloadFiles(std::string folder, int fd, FailpointHook failpoints)
      : folder_(std::move(folder)), fd_(fd), failpoints_(std::move(failpoints)) {}
  absl::Status WriteAndSync(int fd, const std::string& path,
                            std::span<const std::string_view> pieces);

  const std::string folder_;
  const int fd_;  // of the folder, kept: a commit must not fail for want of a descriptor
  const FailpointHook failpoints_;
  std::atomic<uint64_t> last_ = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_FILES_PAYLOAD_FILES_H_

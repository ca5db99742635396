// Byte strings that are too large for the database. Each is a file that is written once, synced
// before a row of the database names it, and read as a whole. A file that no row names is a
// leftover of a crash.
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

// Syncs the names in a folder. Ends the process on an error (fatal.h).
void SyncFolder(const std::string& folder);

// Thread-safe, except for concurrent calls about the same file.
class PayloadFiles {
 public:
  // Creates the folder if it does not exist. Errors: FAILED_PRECONDITION (STORE_UNUSABLE).
  static absl::StatusOr<std::unique_ptr<PayloadFiles>> Open(const std::string& folder,
                                                            FailpointHook failpoints = {});
  ~PayloadFiles();
  PayloadFiles(const PayloadFiles&) = delete;
  PayloadFiles& operator=(const PayloadFiles&) = delete;

  // Writes and syncs a new file, and returns its number, which is never 0. The name is durable
  // after Sync(). On an error no file is left: RESOURCE_EXHAUSTED (STORE_FULL); UNAVAILABLE
  // (STORE_BUSY) if the process has too many open files.
  absl::StatusOr<uint64_t> Write(std::span<const std::string_view> pieces);
  void Sync() const;

  // Reads a whole file. Errors: DATA_LOSS (STORE_CORRUPT) if the file does not exist or does not
  // have `bytes` bytes; RESOURCE_EXHAUSTED (OUT_OF_MEMORY) if it does not fit in memory;
  // UNAVAILABLE (STORE_BUSY) without a free descriptor; FAILED_PRECONDITION (STORE_UNUSABLE)
  // without permission.
  absl::StatusOr<std::string> Read(uint64_t number, uint64_t bytes) const;
  void Delete(uint64_t number) const;

  // Returns the number of a new file that the caller creates (partial_files.h).
  uint64_t NewNumber() { return ++last_; }
  // Makes new numbers higher than `number`, which a row may name even if its file is lost.
  void SkipTo(uint64_t number) { last_ = std::max<uint64_t>(last_, number); }
  std::string PathOf(uint64_t number) const;
  // Returns the numbers of the files whose name is a number followed by `suffix`, ascending.
  std::vector<uint64_t> List(std::string_view suffix = "") const;

 private:
  PayloadFiles(std::string folder, int fd, FailpointHook failpoints)
      : folder_(std::move(folder)), fd_(fd), failpoints_(std::move(failpoints)) {}
  absl::Status WriteAndSync(int fd, const std::string& path,
                            std::span<const std::string_view> pieces);

  const std::string folder_;
  const int fd_;  // of the folder; kept open, so that a commit needs no free descriptor
  const FailpointHook failpoints_;
  std::atomic<uint64_t> last_ = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_FILES_PAYLOAD_FILES_H_

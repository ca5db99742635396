// Payloads that arrive in chunks, in files that become the payload files of accepted updates
// without a copy. Beside each file N is a file N.part, which identifies the update and records how
// much of N was synced:
//
//   N.part     := record(identity) record(checkpoint)*
//   record     := u32 CRC-32C of the body, u32 length of the body, body          little-endian
//   identity   := string(round) string(contributor) string(update_id) string(description)
//                 u64 total_bytes
//   string     := u32 length, bytes
//   checkpoint := u64 bytes, u32 CRC-32C of the first `bytes` bytes of N
//
// After a crash, a payload continues from the last checkpoint whose CRC-32C matches its bytes.
// There is no other guarantee: a partial payload counts for nothing, and is deleted if it is not
// resumed.
#ifndef SPARSEAGG_SERVICE_STORE_FILES_PARTIAL_FILES_H_
#define SPARSEAGG_SERVICE_STORE_FILES_PARTIAL_FILES_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "service/store/failpoints.h"
#include "service/store/files/payload_files.h"
#include "service/store/store.h"
#include "service/store/tables.h"

namespace sparseagg {

// Thread-safe. Must outlive the payloads that it returns.
class PartialFiles {
 public:
  using CheckFreeSpace = std::function<absl::Status()>;
  // Writes a checkpoint every `checkpoint_bytes`. Calls `check_free_space` before a payload grows.
  PartialFiles(PayloadFiles& files, uint64_t checkpoint_bytes, CheckFreeSpace check_free_space,
               FailpointHook failpoints = {})
      : files_(files),
        checkpoint_bytes_(checkpoint_bytes),
        check_free_space_(std::move(check_free_space)),
        failpoints_(std::move(failpoints)) {}

  // Runs at the start. `named` has the numbers of the files that rows name, ascending. Of the other
  // files, keeps the payloads of rounds that are open, which can be resumed, and deletes the rest.
  void DeleteLeftovers(const std::vector<uint64_t>& named,
                       const std::function<bool(const std::string& round)>& is_open);

  // Returns the payload with this identity, with the bytes received so far, or an empty one. `row`
  // is the number of the round's row, which is never used again: what an earlier round of that name
  // left may not be deleted yet, and is not continued.
  // Errors: UNAVAILABLE (STORE_BUSY) while another caller has it; RESOURCE_EXHAUSTED (STORE_FULL).
  absl::StatusOr<std::unique_ptr<UploadPayload>> Take(PartialIdentity identity, int64_t row);

  // Syncs a complete payload that Take() returned. Its name is durable after PayloadFiles::Sync().
  absl::StatusOr<BlobRef> Complete(UploadPayload& payload);
  // Hands the file over to the row that now names it, and deletes N.part.
  void HandOver(UploadPayload& payload);

  // These delete payloads that are not in use. DropRound() deletes those of a round, unless
  // `is_open` returns true because the name is used again; `is_open` is called with a lock held
  // that Take() needs, too.
  void DropRound(const std::string& round, const std::function<bool()>& is_open);
  void DropUnusedSince(std::chrono::steady_clock::time_point time);

 private:
  class File;
  using Key = std::tuple<std::string, std::string, std::string>;  // round, contributor, update_id
  struct Entry {
    PartialIdentity identity;
    uint64_t file = 0;
    bool taken = false;
    std::chrono::steady_clock::time_point since;
  };
  static Key KeyOf(const PartialIdentity& identity);
  // Removes the entries that meet `condition`, then deletes their files without the lock.
  void DropIf(const std::function<bool(const Entry&)>& condition);
  void DeleteFiles(uint64_t number) const;
  void Return(const File& file);
  void Forget(const File& file);

  PayloadFiles& files_;
  const uint64_t checkpoint_bytes_;
  const CheckFreeSpace check_free_space_;
  const FailpointHook failpoints_;
  std::mutex mutex_;
  std::map<Key, Entry> entries_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_FILES_PARTIAL_FILES_H_

// Payloads that arrive bit by bit, in files that become those of the accepted updates as they are.
// Beside the file N is N.part, which says what N is of and how much of it was synced:
//
//   N.part     := record(identity) record(checkpoint)*
//   record     := u32 CRC-32C of the body, u32 length of the body, body          little-endian
//   identity   := round, contributor, update_id, description (u32 length, bytes each), u64 total
//   bytes checkpoint := u64 bytes, u32 CRC-32C of so many bytes of N
//
// After a crash a payload goes on from the last checkpoint that its bytes agree with. Nothing else
// is promised of it: a partial payload counts for nothing, and is dropped when nobody resumes it.
#ifndef SPARSEAGG_SERVICE_STORE_FILES_PARTIAL_FILES_H_
#define SPARSEAGG_SERVICE_STORE_FILES_PARTIAL_FILES_H_

#include <chrono>
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

// Thread-safe. Outlives the payloads that it has given out.
class PartialFiles {
 public:
  using CheckRoom = std::function<absl::Status()>;
  // A checkpoint is made every `checkpoint_bytes`. `check_room` is asked before a payload grows.
  PartialFiles(PayloadFiles& files, uint64_t checkpoint_bytes, CheckRoom check_room,
               FailpointHook failpoints = {})
      : files_(files),
        checkpoint_bytes_(checkpoint_bytes),
        check_room_(std::move(check_room)),
        failpoints_(std::move(failpoints)) {}

  // At the start: of the files that no row names (`named`, ascending), keeps the payloads that can
  // be resumed, since their round `is_open`, and deletes the rest.
  void DeleteLeftovers(const std::vector<uint64_t>& named,
                       const std::function<bool(const std::string& round)>& is_open);

  // The payload of that identity, with the bytes that are there of it, or an empty one. UNAVAILABLE
  // (STORE_BUSY) while another has it; RESOURCE_EXHAUSTED (STORE_FULL).
  absl::StatusOr<std::unique_ptr<PartialPayload>> Take(const PartialIdentity& identity);

  // Syncs a complete payload of this object's; its name is durable after PayloadFiles::Sync().
  absl::StatusOr<Placed> Complete(PartialPayload& payload);
  // A row names its file now.
  void GiveAway(PartialPayload& payload);

  // Deletes those that nobody has taken; those of a round unless `is_open` says that the name was
  // given again. It is called with a lock held that Take() needs, too.
  void DropOf(const std::string& round, const std::function<bool()>& is_open);
  void DropUnusedSince(std::chrono::steady_clock::time_point time);

 private:
  class File;
  using Key = std::tuple<std::string, std::string, std::string>;  // round, contributor, update_id
  struct Left {
    PartialIdentity identity;
    uint64_t file = 0;
    bool taken = false;
    std::chrono::steady_clock::time_point since;
  };
  static Key KeyOf(const PartialIdentity& identity);
  // Entries that meet `condition` are forgotten at once; their files are deleted without the lock.
  void DropIf(const std::function<bool(const Left&)>& condition);
  void DeleteFiles(uint64_t number) const;
  void Return(const File& file);
  void Forget(const File& file);

  PayloadFiles& files_;
  const uint64_t checkpoint_bytes_;
  const CheckRoom check_room_;
  const FailpointHook failpoints_;
  std::mutex mutex_;
  std::map<Key, Left> left_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_FILES_PARTIAL_FILES_H_

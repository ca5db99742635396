// Places in the store where a test may end the process, delay a step or fail it: one after every
// step that changes what a crash would leave on disk. In production there is no hook, and a
// failpoint costs one test of a pointer for each step of a group.
//
// tests/failpoints visits all of them: it kills the process at every step of a round's life, and at
// every step of the start that follows.
#ifndef SPARSEAGG_SERVICE_STORE_FAILPOINTS_H_
#define SPARSEAGG_SERVICE_STORE_FAILPOINTS_H_

#include <cstdint>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace sparseagg {

enum class Failpoint : uint8_t {
  kPayloadWritten,    // a payload file has its bytes; not yet synced
  kPayloadSynced,     // the file's bytes are synced; its name is not
  kNamesSynced,       // the names of payload files are synced
  kGroupTaken,        // the updates of a group commit are chosen
  kTransactionBegun,  // a transaction of any kind has begun
  kRowsWritten,       // all rows are written; not committed
  kCommitted,         // committed; the state in memory is unchanged, no caller has an answer
  kMemoryUpdated,     // the state in memory has changed; no caller has an answer
  kPayloadDeleted,    // a payload file is deleted, after the row that named it
  kPartMade,          // the files of a partial payload are created; N is empty
  kPartWritten,       // a piece of it is written; not acknowledged
  kCheckpointSynced,  // the bytes are synced; their checkpoint is not yet written
  kPartHandedOver,    // a row names its file, and N.part is deleted
  kLogEmptied,        // the log is checkpointed into the database
  kDatabaseOpened,    // at the start; the last process's log is not checkpointed
  kFoldersSynced,     // at the start
  kRoundLoaded,       // at the start; after each round
  kLeftoversDeleted,  // at the start: its last step
};

// This table is indexed by Failpoint. `may_fail`: an error at this step undoes it, as a full disk
// would.
struct FailpointInfo {
  std::string_view name;
  bool may_fail;
};
inline constexpr FailpointInfo kFailpoints[] = {
    {"payload written", true},   {"payload synced", true},    {"names synced", false},
    {"group taken", false},      {"transaction begun", true}, {"rows written", true},
    {"committed", false},        {"memory updated", false},   {"payload deleted", false},
    {"part made", true},         {"part written", true},      {"checkpoint synced", true},
    {"part handed over", false}, {"log emptied", false},      {"database opened", true},
    {"folders synced", true},    {"round loaded", true},      {"leftovers deleted", true},
};
static_assert(std::size(kFailpoints) == static_cast<size_t>(Failpoint::kLeftoversDeleted) + 1);

// Calls the hook at a failpoint. Each user has a copy. Thread-safe if the hook is.
class FailpointHook {
 public:
  using Hook = std::function<absl::Status(Failpoint)>;

  FailpointHook() = default;
  FailpointHook(Hook hook) : hook_(std::move(hook)) {}  // NOLINT(google-explicit-constructor)

  // For steps that can fail: returns the hook's error.
  absl::Status Check(Failpoint point) const {
    return hook_ == nullptr ? absl::OkStatus() : hook_(point);
  }
  // For steps that cannot fail: the hook may only end the process or delay the thread.
  void Pass(Failpoint point) const {
    if (hook_ != nullptr) hook_(point).IgnoreError();
  }

 private:
  Hook hook_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_FAILPOINTS_H_

// Places in the store where a test may end, hold up or fail what is going on: one after every step
// that changes what a crash would leave behind. In production nothing listens, and a failpoint is a
// test of a pointer for each step of a group.
//
// tests/failpoints walks all of them: the process is killed at every step of a round's life, and at
// every step of the start after that.
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
  kPayloadWritten,    // a file has its bytes, not yet synced
  kPayloadSynced,     // its name is not
  kNamesSynced,       // of payload files
  kGroupTaken,        // updates that will be committed together
  kTransactionBegun,  // of any kind
  kRowsWritten,       // and not committed
  kCommitted,         // and not answered; the books are as before
  kBooksChanged,      // in memory; not answered
  kPayloadDeleted,    // the row that named it is gone already
  kPartMade,          // the files of a payload that arrives bit by bit, still empty
  kPartWritten,       // a piece of it, not yet acknowledged
  kCheckpointSynced,  // the bytes that it is about; not yet the checkpoint
  kPartGivenAway,     // a row names its file; no longer N.part beside it
  kLogEmptied,        // into the database
  kDatabaseOpened,    // at the start; the log of the last process is not emptied
  kFoldersSynced,     // at the start
  kRoundLoaded,       // at the start; what an end interrupted is erased
  kLeftoversDeleted,  // at the start: the last step of it
};

// By number; `may_fail`: the step is undone by an error, as it would be by a full disk.
struct FailpointInfo {
  std::string_view name;
  bool may_fail;
};
inline constexpr FailpointInfo kFailpoints[] = {
    {"payload written", true},  {"payload synced", true},    {"names synced", false},
    {"group taken", false},     {"transaction begun", true}, {"rows written", true},
    {"committed", false},       {"books changed", false},    {"payload deleted", false},
    {"part made", true},        {"part written", true},      {"checkpoint synced", true},
    {"part given away", false}, {"log emptied", false},      {"database opened", true},
    {"folders synced", true},   {"round loaded", true},      {"leftovers deleted", true},
};
static_assert(std::size(kFailpoints) == static_cast<size_t>(Failpoint::kLeftoversDeleted) + 1);

// Copied to whoever has failpoints. Thread-safe if the hook is.
class FailpointHook {
 public:
  using Hook = std::function<absl::Status(Failpoint)>;

  FailpointHook() = default;
  FailpointHook(Hook hook) : hook_(std::move(hook)) {}  // NOLINT(google-explicit-constructor)

  // Where an error is an answer: the hook's.
  absl::Status Check(Failpoint point) const {
    return hook_ == nullptr ? absl::OkStatus() : hook_(point);
  }
  // Where it is none: the hook may end the process or hold up the thread.
  void Pass(Failpoint point) const {
    if (hook_ != nullptr) hook_(point).IgnoreError();
  }

 private:
  Hook hook_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_FAILPOINTS_H_

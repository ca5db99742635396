// The updates of one group commit. In the order of their calls, each is answered at once if the
// accepted updates decide it; otherwise it becomes an entry to insert, or waits for the outcome of
// the entries before it.
#ifndef SPARSEAGG_SERVICE_STORE_PUT_GROUP_H_
#define SPARSEAGG_SERVICE_STORE_PUT_GROUP_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "service/store/accepted_updates.h"
#include "service/store/store.h"
#include "service/store/tables.h"

namespace sparseagg {

// An update that waits for its group commit.
struct PendingPut {
  const UpdateRecord& record;
  std::string_view headers;
  uint64_t contributors_max;
  const BlobRef& payload;
  absl::StatusOr<PutResult> result = absl::UnknownError("not committed");
};

// Thread-compatible. Between Classify() and Finish() the accepted updates must not change.
class PutGroup {
 public:
  struct Round {
    int64_t id = 0;
    AcceptedUpdates* accepted = nullptr;  // null: no such round
  };
  using FindRound = std::function<Round(const std::string& name)>;

  struct Entry {
    PendingPut* put;
    int64_t round;
    UpdateRecord record;  // with its sequence set
  };

  void Classify(std::span<PendingPut* const> puts, const FindRound& find);
  const std::vector<Entry>& entries() const { return entries_; }
  // Returns whether the payload of an entry is a file.
  bool has_files() const { return has_files_; }
  // Adds what was committed to the accepted updates, and sets the result of every put.
  void Finish(const absl::Status& committed, const FindRound& find);

 private:
  std::vector<Entry> entries_;
  // Puts whose contributor has an entry, or that exceed the round's maximum if the entries are
  // accepted.
  std::vector<PendingPut*> deferred_;
  bool has_files_ = false;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_PUT_GROUP_H_

// The updates and rows of tasks of one group commit. In the order of their calls, each is answered
// at once if the accepted updates decide it; otherwise it becomes an entry to insert, or waits for
// the outcome of the entries before it.
#ifndef SPARSEAGG_SERVICE_STORE_PUT_GROUP_H_
#define SPARSEAGG_SERVICE_STORE_PUT_GROUP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/store/accepted_updates.h"
#include "service/store/store.h"
#include "service/store/tables.h"
#include "service/store/task_rows.h"

namespace sparseagg {

// An update that waits for its group commit.
struct PendingPut {
  const UpdateRecord& record;
  std::string_view headers;
  uint64_t contributors_max;
  const BlobRef& payload;
  absl::StatusOr<PutResult> result = absl::UnknownError("not committed");
};

// Rows of tasks that wait for their group commit.
struct PendingRows {
  std::span<const TaskRow> rows;
  absl::Status result = absl::UnknownError("not committed");
};

// One of the two.
struct PendingCommit {
  PendingPut* put = nullptr;
  PendingRows* rows = nullptr;
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

  void Classify(std::span<PendingCommit* const> commits, const FindRound& find);
  // Returns whether there is nothing to write.
  bool empty() const { return entries_.empty() && rows_.empty(); }
  // Returns whether the payload of an entry is a file.
  bool has_files() const { return has_files_; }
  // Writes the entries and the rows. REQUIRES: in a transaction.
  absl::Status Write(Tables& tables, TaskRowTable& task_rows) const;
  // Adds what was committed to the accepted updates, and sets the results.
  void Finish(const absl::Status& committed, const FindRound& find);

 private:
  void Classify(PendingPut& put, const FindRound& find);

  std::vector<Entry> entries_;
  std::vector<PendingRows*> rows_;
  std::map<std::string_view, uint64_t> sequences_;  // of the last entry, by round
  std::set<std::pair<std::string_view, std::string_view>> contributors_;  // of entries, by round
  // Puts whose contributor has an entry, or that exceed the round's maximum if the entries are
  // accepted.
  std::vector<PendingPut*> deferred_;
  bool has_files_ = false;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_PUT_GROUP_H_

// The updates of one commit, judged in the order of their calls: what the books know is answered at
// once, the rest becomes entries, or waits for the outcome of the entries before it.
#ifndef SPARSEAGG_SERVICE_STORE_PUT_GROUP_H_
#define SPARSEAGG_SERVICE_STORE_PUT_GROUP_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "service/store/books.h"
#include "service/store/store.h"
#include "service/store/tables.h"

namespace sparseagg {

// An update on its way into the database.
struct PendingPut {
  const UpdateRecord& record;
  std::string_view headers;
  uint64_t contributors_max;
  const Placed& payload;
  absl::StatusOr<PutResult> result = absl::UnknownError("not committed");
};

// Thread-compatible. The books must not change between Judge() and Finish() but by `enter`.
class PutGroup {
 public:
  struct Round {
    int64_t id = 0;
    Books* books = nullptr;  // null: no such round
  };
  using FindRound = std::function<Round(const std::string& name)>;

  struct Entry {
    PendingPut* put;
    int64_t round;
    UpdateRecord record;  // with its sequence
  };

  void Judge(std::span<PendingPut* const> puts, const FindRound& find);
  const std::vector<Entry>& entries() const { return entries_; }
  // Whether an entry's payload is a file.
  bool has_files() const { return has_files_; }
  // Enters what was committed into the books, and answers everybody.
  void Finish(const absl::Status& committed, const FindRound& find);

 private:
  std::vector<Entry> entries_;
  // Of a contributor with an entry, or beyond the round's maximum with the entries.
  std::vector<PendingPut*> behind_;
  bool has_files_ = false;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_PUT_GROUP_H_

// The books of one round: who was counted, with which update. What every store decides by.
#ifndef SPARSEAGG_SERVICE_STORE_BOOKS_H_
#define SPARSEAGG_SERVICE_STORE_BOOKS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/store/store.h"

namespace sparseagg {

// Thread-compatible.
class Books {
 public:
  // What the store answers for `record`: a duplicate's first record, a refusal, or nothing when it
  // may be entered.
  absl::StatusOr<std::optional<PutResult>> Judge(const UpdateRecord& record,
                                                 uint64_t contributors_max) const;

  void Enter(UpdateRecord record);
  void Close() { open_ = false; }
  void Clear() { by_contributor_.clear(); }

  bool open() const { return open_; }
  uint64_t last_sequence() const { return last_sequence_; }
  std::optional<UpdateRecord> Find(const std::string& contributor) const;
  // Ordered by contributor.
  std::vector<UpdateRecord> Records() const;

 private:
  bool open_ = true;
  uint64_t last_sequence_ = 0;
  std::map<std::string, UpdateRecord> by_contributor_;
};

absl::Status RoundNotFound(const std::string& round);
absl::Status RoundExists(const std::string& round);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_BOOKS_H_

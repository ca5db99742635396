// Reads updates and results of a durable store while other threads commit and erase: the database
// is locked for one row at a time, and files are read without the lock.
#ifndef SPARSEAGG_SERVICE_STORE_STORE_READER_H_
#define SPARSEAGG_SERVICE_STORE_STORE_READER_H_

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "service/store/accepted_updates.h"
#include "service/store/store.h"
#include "service/store/tables.h"

namespace sparseagg {

// Thread-safe.
class StoreReader {
 public:
  // The current row number and phase of a durable round.
  struct RoundRow {
    int64_t round = 0;  // its row number
    RoundPhase phase = RoundPhase::kOpen;
  };
  using FindRound = std::function<std::optional<RoundRow>(const std::string&)>;

  // `database_mutex` guards `tables`; while it is locked, `find_round` and the tables agree. All
  // arguments must outlive this object.
  StoreReader(std::mutex& database_mutex, Tables& tables, FindRound find_round)
      : database_mutex_(database_mutex), tables_(tables), find_round_(std::move(find_round)) {}

  // See UpdateStore.
  absl::Status ReadUpdates(const std::string& round, const UpdateStore::OnUpdate& on_update) const;
  absl::StatusOr<std::string> ReadResult(const std::string& round) const;

 private:
  // Returns the rows of the round's updates; none if they are erased or being erased.
  absl::StatusOr<std::vector<int64_t>> Rows(const std::string& round) const;
  absl::StatusOr<StoredUpdate> ReadRow(const std::string& round, int64_t row) const;

  std::mutex& database_mutex_;
  Tables& tables_;
  const FindRound find_round_;
};

// Reads the records of a round's updates at the start of the store. Sets record.damage, unless it
// is set, if a record is damaged or missing.
absl::Status LoadAcceptedUpdates(Tables& tables, int64_t round, RoundRecord& record,
                                 AcceptedUpdates& accepted);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_STORE_READER_H_

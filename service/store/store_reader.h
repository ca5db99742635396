// Reads what the rounds of a durable store have kept while others commit and erase: the database is
// held for a row at a time, and long byte strings are read from their files without it.
#ifndef SPARSEAGG_SERVICE_STORE_STORE_READER_H_
#define SPARSEAGG_SERVICE_STORE_STORE_READER_H_

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "service/store/store.h"
#include "service/store/tables.h"

namespace sparseagg {

// Thread-safe.
class StoreReader {
 public:
  // The number of a durable round and its row as it is now.
  using RowOf = std::function<std::optional<std::pair<int64_t, RoundRecord>>(const std::string&)>;

  // `database_mutex` guards `tables`; while it is held `row_of` and the tables agree. All must
  // outlive this.
  StoreReader(std::mutex& database_mutex, Tables& tables, RowOf row_of)
      : database_mutex_(database_mutex), tables_(tables), row_of_(std::move(row_of)) {}

  // See UpdateStore.
  absl::Status ReadUpdates(const std::string& round, const UpdateStore::OnUpdate& on_update) const;
  absl::StatusOr<std::string> ReadResult(const std::string& round) const;

 private:
  // The first update of `rows`, which are those behind it then; all of the round where they are not
  // known yet. Without content when there is none.
  absl::StatusOr<StoredUpdate> ReadNext(const std::string& round,
                                        std::optional<RowRange>& rows) const;

  std::mutex& database_mutex_;
  Tables& tables_;
  const RowOf row_of_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_STORE_READER_H_

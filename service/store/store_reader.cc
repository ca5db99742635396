#include "service/store/store_reader.h"

#include "service/store/books.h"
#include "sparse/status.h"

namespace sparseagg {

absl::StatusOr<StoredUpdate> StoreReader::ReadNext(const std::string& round,
                                                   std::optional<RowRange>& rows) const {
  std::lock_guard lock(database_mutex_);
  const auto row = row_of_(round);
  if (!row.has_value()) return RoundNotFound(round);
  if (!HasUpdates(row->second.phase)) {
    if (!rows) return StoredUpdate{};
    return RoundNotFound(round);  // they are being erased
  }
  if (!rows) {
    SPARSEAGG_ASSIGN_OR_RETURN(rows, tables_.UpdateRows(row->first));
  }
  StoredUpdate update{.record = {.round = round}};
  SPARSEAGG_ASSIGN_OR_RETURN(const int64_t read, tables_.ReadUpdate(*rows, row->first, update));
  rows->first = read + 1;
  return update;
}

absl::Status StoreReader::ReadUpdates(const std::string& round,
                                      const UpdateStore::OnUpdate& on_update) const {
  for (std::optional<RowRange> rows;;) {
    SPARSEAGG_ASSIGN_OR_RETURN(const StoredUpdate update, ReadNext(round, rows));
    if (update.content.id == 0) return absl::OkStatus();
    const auto payload = tables_.Fetch(update.content);
    if (!payload.ok()) {
      // Who erases it has changed its phase before.
      const auto row = row_of_(round);
      const bool needed = row.has_value() && HasUpdates(row->second.phase);
      return needed ? payload.status() : RoundNotFound(round);
    }
    SPARSEAGG_RETURN_IF_ERROR(on_update(update.record, update.content.headers, *payload));
  }
}

absl::StatusOr<std::string> StoreReader::ReadResult(const std::string& round) const {
  StoredContent content;
  {
    std::lock_guard lock(database_mutex_);
    const auto row = row_of_(round);
    if (!row.has_value()) return RoundNotFound(round);
    SPARSEAGG_ASSIGN_OR_RETURN(content, tables_.ReadResult(row->first));
  }
  auto result = tables_.Fetch(content);
  if (!result.ok() && !row_of_(round).has_value()) return RoundNotFound(round);  // erased meanwhile
  return result;
}

}  // namespace sparseagg

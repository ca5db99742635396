#include "service/store/store_reader.h"

#include <utility>

#include "base/status.h"

namespace sparseagg {

absl::StatusOr<std::vector<int64_t>> StoreReader::Rows(const std::string& round) const {
  std::lock_guard lock(database_mutex_);
  const auto found = find_round_(round);
  if (!found.has_value()) return RoundNotFound(round);
  if (!HasUpdates(found->phase)) return std::vector<int64_t>{};
  return tables_.UpdateRows(found->round);
}

absl::StatusOr<StoredUpdate> StoreReader::ReadRow(const std::string& round, int64_t row) const {
  std::lock_guard lock(database_mutex_);
  const auto found = find_round_(round);
  // The round is deleted, or its updates are being erased.
  if (!found.has_value() || !HasUpdates(found->phase)) return RoundNotFound(round);
  StoredUpdate update{.record = {.round = round}};
  SPARSEAGG_RETURN_IF_ERROR(tables_.ReadUpdate(row, found->round, update));
  return update;
}

absl::Status StoreReader::ReadUpdates(const std::string& round,
                                      const UpdateStore::OnUpdate& on_update) const {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<int64_t> rows, Rows(round));
  for (const int64_t row : rows) {
    SPARSEAGG_ASSIGN_OR_RETURN(const StoredUpdate update, ReadRow(round, row));
    const auto payload = tables_.Fetch(update.content);
    if (!payload.ok()) {
      // An erasure changes the phase before it deletes a file.
      const auto found = find_round_(round);
      const bool needed = found.has_value() && HasUpdates(found->phase);
      return needed ? payload.status() : RoundNotFound(round);
    }
    SPARSEAGG_RETURN_IF_ERROR(on_update(update.record, update.content.headers, *payload));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> StoreReader::ReadResult(const std::string& round) const {
  StoredContent content;
  {
    std::lock_guard lock(database_mutex_);
    const auto found = find_round_(round);
    if (!found.has_value()) return RoundNotFound(round);
    SPARSEAGG_ASSIGN_OR_RETURN(content, tables_.ReadResult(found->round));
  }
  auto result = tables_.Fetch(content);
  // The round was erased concurrently.
  if (!result.ok() && !find_round_(round).has_value()) return RoundNotFound(round);
  return result;
}

absl::Status LoadAcceptedUpdates(Tables& tables, int64_t round, RoundRecord& record,
                                 AcceptedUpdates& accepted) {
  bool gapless = true;
  const absl::Status read = tables.ReadRecords(round, record.name, [&](UpdateRecord update) {
    gapless &= update.sequence == accepted.last_sequence() + 1;
    accepted.Add(std::move(update));
  });
  if (!read.ok() && !absl::IsDataLoss(read)) return read;
  if (!read.ok() && record.damage.empty()) record.damage = std::string(read.message());
  if (!gapless && record.damage.empty()) record.damage = "an update is missing";
  return absl::OkStatus();
}

}  // namespace sparseagg

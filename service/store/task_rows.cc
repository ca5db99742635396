#include "service/store/task_rows.h"

#include <string_view>
#include <utility>

#include "base/status.h"
#include "service/store/checksums/row_checksum.h"

namespace sparseagg {
namespace {

int64_t ChecksumOf(std::string_view key, std::string_view value) {
  return RowChecksum().Bytes(key).Bytes(value).value();
}

// Returns the first key behind all that begin with `prefix`. REQUIRES: the prefix ends with an
// ASCII character.
std::string Behind(std::string prefix) {
  ++prefix.back();
  return prefix;
}

}  // namespace

absl::Status TaskRowTable::Delete(const TaskRow& row) {
  if (row.is_prefix) {
    const std::string behind = Behind(row.key);
    Query query(database_, "DELETE FROM tasks WHERE key >= ? AND key < ?");
    return query.Text(row.key).Text(behind).Done();
  }
  Query query(database_, "DELETE FROM tasks WHERE key = ?");
  return query.Text(row.key).Done();
}

absl::Status TaskRowTable::Write(std::span<const TaskRow> rows) {
  for (const TaskRow& row : rows) {
    if (!row.value.has_value()) {
      SPARSEAGG_RETURN_IF_ERROR(Delete(row));
      continue;
    }
    Query query(database_,
                "INSERT INTO tasks(key, value, crc32c) VALUES(?, ?, ?) ON CONFLICT(key) "
                "DO UPDATE SET value = excluded.value, crc32c = excluded.crc32c");
    SPARSEAGG_RETURN_IF_ERROR(
        query.Text(row.key).Blob(*row.value).Integer(ChecksumOf(row.key, *row.value)).Done());
  }
  return absl::OkStatus();
}

absl::Status TaskRowTable::Read(std::string_view prefix,
                                const std::function<void(TaskRow)>& on_row) {
  const std::string first(prefix);
  const std::string behind = first.empty() ? "" : Behind(first);
  Query query(database_, first.empty() ? "SELECT key, value, crc32c FROM tasks ORDER BY key"
                                       : "SELECT key, value, crc32c FROM tasks WHERE key >= ? AND "
                                         "key < ? ORDER BY key");
  if (!first.empty()) query.Text(first).Text(behind);
  while (true) {
    SPARSEAGG_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return absl::OkStatus();
    TaskRow row{.key = std::string(query.blob(0)), .value = std::nullopt};
    std::string value(query.blob(1));
    if (ChecksumOf(row.key, value) == query.integer(2)) row.value = std::move(value);
    on_row(std::move(row));
  }
}

}  // namespace sparseagg

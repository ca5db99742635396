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

}  // namespace

absl::Status TaskRowTable::Write(std::span<const TaskRow> rows) {
  for (const TaskRow& row : rows) {
    if (!row.value.has_value()) {
      Query query(database_, "DELETE FROM tasks WHERE key = ?");
      SPARSEAGG_RETURN_IF_ERROR(query.Text(row.key).Done());
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

absl::StatusOr<std::vector<TaskRow>> TaskRowTable::All() {
  std::vector<TaskRow> rows;
  Query query(database_, "SELECT key, value, crc32c FROM tasks ORDER BY key");
  while (true) {
    SPARSEAGG_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return rows;
    TaskRow& row = rows.emplace_back(TaskRow{.key = std::string(query.blob(0))});
    std::string value(query.blob(1));
    if (ChecksumOf(row.key, value) == query.integer(2)) row.value = std::move(value);
  }
}

}  // namespace sparseagg

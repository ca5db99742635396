// The table of the task service's rows (task_row_store.h). A row has a CRC-32C of its key and
// value.
#ifndef SPARSEAGG_SERVICE_STORE_TASK_ROWS_H_
#define SPARSEAGG_SERVICE_STORE_TASK_ROWS_H_

#include <functional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "service/store/database.h"
#include "service/store/task_row_store.h"

namespace sparseagg {

// Thread-compatible. The caller makes writes within a transaction.
class TaskRowTable {
 public:
  explicit TaskRowTable(Database& database) : database_(database) {}

  // Writes each row in the place of the one with its key. A row without a value is deleted, or all
  // rows whose keys begin with its key.
  absl::Status Write(std::span<const TaskRow> rows);
  // Calls `on_row` for each row whose key begins with `prefix`, in ascending order of their keys. A
  // damaged row has no value, and perhaps not its key.
  absl::Status Read(std::string_view prefix, const std::function<void(TaskRow)>& on_row);

 private:
  absl::Status Delete(const TaskRow& row);

  Database& database_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_TASK_ROWS_H_

// Keeps the rows of the task service (service/tasks/), which have a key and a value that the store
// does not interpret.
#ifndef SPARSEAGG_SERVICE_STORE_TASK_ROW_STORE_H_
#define SPARSEAGG_SERVICE_STORE_TASK_ROW_STORE_H_

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace sparseagg {

// Rows whose keys begin with it belong to service/tree/, not to the task service.
inline constexpr std::string_view kTreeRowPrefix = "tree/";

struct TaskRow {
  std::string key;
  // To be written: nullopt deletes the row. Read: nullopt says that the row is damaged.
  std::optional<std::string> value;
  // To be written: deletes every row whose key begins with `key`. REQUIRES: no value.
  bool is_prefix = false;
};

// Thread-safe. The errors are those of UpdateStore.
class TaskRowStore {
 public:
  virtual ~TaskRowStore() = default;
  // Writes rows in their order, all or none, in one group commit with updates. While the disk keeps
  // only its free bytes, `more_work` is refused (STORE_FULL).
  virtual absl::Status PutTaskRows(std::span<const TaskRow> rows, bool more_work) = 0;
  // Calls `on_row` for each row whose key begins with `prefix`, in ascending order of their keys.
  // `on_row` must not call the store, except UpdateStore::Find().
  virtual absl::Status ReadTaskRows(std::string_view prefix,
                                    const std::function<void(TaskRow)>& on_row) const = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_TASK_ROW_STORE_H_

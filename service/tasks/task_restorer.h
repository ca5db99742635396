// Restores a table of tasks from the rows of the store, and finds what damage has left: groups
// without their row, rows without their group, a clock that is gone.
#ifndef SPARSEAGG_SERVICE_TASKS_TASK_RESTORER_H_
#define SPARSEAGG_SERVICE_TASKS_TASK_RESTORER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "service/store/task_row_store.h"
#include "service/tasks/stored_tasks.h"
#include "service/tasks/task_table.h"

namespace sparseagg {

// Thread-compatible.
class TaskRestorer {
 public:
  // `table` is empty, and must outlive this.
  TaskRestorer(TaskTable& table, const TaskTime& now) : table_(table), now_(now) {}

  // To be called with each row, in ascending order of their keys.
  void Read(TaskRow row);

  struct Result {
    int64_t clock_ms = 0;  // where the clock of leases goes on
    bool is_clock_lost = false;
    uint64_t bounded_leases = 0;
    std::set<std::string> damaged_groups;
    // To be ended as STORE_CORRUPT, because their rows cannot be read.
    std::vector<TaskId> damaged_tasks;
    std::vector<TaskGroup*> damaged_ends;
    std::vector<TaskRow> deletions;  // of rows that belong to nothing
  };
  // To be called after the last row.
  Result Finish();

 private:
  void ReadGroup(const TaskRowName& name, const TaskRow& row);
  void ReadTaskOf(const TaskRowName& name, const TaskRow& row);
  void RestoreEnds();
  void RestoreRequests();
  void RestoreClock();

  TaskTable& table_;
  const TaskTime now_;
  Result result_;
  std::optional<int64_t> clock_ms_;
  bool has_groups_ = false;
  int64_t newest_lease_ms_ =
      0;  // the latest moment of the clock at which a lease is known to begin
  std::map<std::string, std::optional<TaskGroupEnd>> ends_;  // by group; nullopt: damaged
  struct Request {
    std::string tenant;
    std::string id;
    ForgottenRequest forgotten;
  };
  std::vector<Request> requests_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TASKS_TASK_RESTORER_H_

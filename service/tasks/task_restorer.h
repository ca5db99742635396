// Restores a table of tasks from the rows of the store, and finds what damage has left: groups
// without their row, rows without their group, a clock that is gone.
//
// A damaged row may not have the key that was read (the key comes from an index), so that it does
// not count where a healthy row has that key.
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
    uint64_t damaged_tasks = 0;      // that ended as STORE_CORRUPT
    uint64_t ignored_rows = 0;       // damaged, with the key of a healthy row
    std::vector<TaskRow> deletions;  // of rows that belong to nothing
  };
  // To be called after the last row. The tasks whose rows cannot be read have ended then; that is
  // in the journal of the table, and what was restored is not.
  Result Finish();

 private:
  void ReadGroup(const TaskRowName& name, const TaskRow& row);
  void ReadTaskOf(const TaskRowName& name, const TaskRow& row);
  // Ends the tasks whose rows are damaged, before the ends of their groups are restored: what a
  // task has become is not known from the end of its group.
  void EndDamagedTasks();
  void RestoreEnds();
  void RestoreRequests();
  void RestoreClock();
  void DeleteRows();

  TaskTable& table_;
  const TaskTime now_;
  Result result_;
  std::optional<int64_t> clock_ms_;
  bool has_groups_ = false;
  int64_t newest_lease_ms_ =
      0;  // the latest moment of the clock at which a lease is known to begin
  std::map<std::string, TaskGroupEnd> ends_;  // by group
  std::set<std::string> damaged_ends_;
  struct Request {
    std::string tenant;
    std::string id;
    ForgottenRequest forgotten;
  };
  std::vector<Request> requests_;
  std::set<uint64_t> orders_;  // of the groups that were read: no writer gives two the same
  std::set<std::string> groups_without_row_;  // qualified names of rows that were read
  std::vector<TaskId> damaged_tasks_;
  std::set<std::string> other_keys_;    // of healthy rows that are not of this version
  std::set<std::string> damaged_keys_;  // to be deleted unless a healthy row has the key
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TASKS_TASK_RESTORER_H_

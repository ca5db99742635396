// Tasks::List().
#include <algorithm>

#include "base/status.h"
#include "service/engine/names.h"
#include "service/tasks/task_names.h"
#include "service/tasks/tasks.h"

namespace sparseagg {
namespace {

// The most tasks and groups that one call looks at: about 2 ms of work.
constexpr size_t kLooksPerCall = 20'000;

// Returns whether the group may have a task that the call is to list.
bool MayHave(const TaskGroup& group, const TaskViewer& viewer, const ListTasksArgs& args) {
  if (!args.pool.empty() && group.info().pool != args.pool) return false;
  if (args.state.has_value() && group.CountOf(*args.state) == 0) return false;
  return !viewer.worker.has_value() || group.leases() > 0;
}

}  // namespace

absl::StatusOr<TaskPage> Tasks::List(const std::string& tenant, const TaskViewer& viewer,
                                     const ListTasksArgs& args) {
  TaskName after{.group = args.group};
  if (!args.group.empty()) {
    SPARSEAGG_ASSIGN_OR_RETURN(const TaskName group, ParseTaskName(args.group));
    if (group.number != 0) return TaskGroupNotFound(args.group);
  }
  if (!args.page_token.empty()) {
    SPARSEAGG_ASSIGN_OR_RETURN(after, ParseTaskName(args.page_token));
  }
  TaskPage page;
  SPARSEAGG_RETURN_IF_ERROR(Read([&](Step& step) -> absl::Status {
    page = {};
    const std::string only = QualifiedName(tenant, args.group);
    if (!args.group.empty() && table_.FindGroup(only) == nullptr) {
      return TaskGroupNotFound(args.group);
    }
    page = ListLocked(tenant, viewer, args, after, step.now);
    return absl::OkStatus();
  }));
  return page;
}

TaskPage Tasks::ListLocked(const std::string& tenant, const TaskViewer& viewer,
                           const ListTasksArgs& args, const TaskName& after,
                           const TaskTime& now) const {
  TaskPage page;
  const std::string only = QualifiedName(tenant, args.group);
  const std::string first = QualifiedName(tenant, after.group);
  const std::string prefix = QualifiedName(tenant, kTaskGroupPrefix);
  size_t looks = 0;
  std::string seen = args.page_token;  // what the page begins after, then what it has come to
  const auto stop = [&] {
    page.next_page_token = seen;
    return page;
  };
  // The groups of a tenant are adjacent.
  for (auto found = table_.groups().lower_bound(std::max(first, prefix));
       found != table_.groups().end() && found->first.starts_with(prefix); ++found) {
    TaskGroup& group = *found->second;
    if (!args.group.empty() && found->first != only) break;
    const std::string_view name = PublicName(found->first);
    const bool is_over = found->first == first && after.number >= group.info().count;
    if (++looks > kLooksPerCall) return stop();
    if (is_over || !MayHave(group, viewer, args)) {
      seen = TaskNameOf(name, group.info().count);
      continue;
    }
    for (uint32_t number = found->first == first ? after.number + 1 : 1;
         number <= group.info().count; ++number, ++looks) {
      const bool is_full = page.tasks.size() == args.page_size || looks > kLooksPerCall;
      if (is_full && number > 1) seen = TaskNameOf(name, number - 1);
      if (is_full) return stop();
      const TaskId id{&group, number};
      if (args.state.has_value() && id.record().state != *args.state) continue;
      if (!viewer.Sees(id.record().worker)) continue;
      page.tasks.push_back(table_.Snapshot(id, now));
      page.tasks.back().payload = nullptr;
    }
    seen = TaskNameOf(name, group.info().count);
  }
  return page;
}

}  // namespace sparseagg

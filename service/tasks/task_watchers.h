// Those that wait for changes of task groups.
#ifndef SPARSEAGG_SERVICE_TASKS_TASK_WATCHERS_H_
#define SPARSEAGG_SERVICE_TASKS_TASK_WATCHERS_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "service/tasks/task_types.h"

namespace sparseagg {

// Called with each newer state of the group, and with nullopt when the group is forgotten.
using OnTaskGroup = std::function<void(const std::optional<TaskGroupSnapshot>&)>;

// Thread-safe. A watcher is called from one thread at a time, without locks of the tasks held, and
// never after its handle is released. Releasing the handle waits for a call in progress, unless it
// is released in that call.
class TaskWatchers {
 public:
  std::shared_ptr<void> Add(const std::string& qualified_group, OnTaskGroup on_change) {
    const auto watcher = std::make_shared<Watcher>();
    watcher->on_change = std::move(on_change);
    const std::lock_guard lock(mutex_);
    std::vector<std::weak_ptr<Watcher>>& known = by_group_[qualified_group];
    std::erase_if(known, [](const auto& other) { return other.expired(); });
    known.push_back(watcher);
    return {watcher.get(), [watcher](void*) {
              const std::lock_guard calls(watcher->calling);
              watcher->on_change = nullptr;
            }};
  }

  void Notify(const std::string& qualified_group, const std::optional<TaskGroupSnapshot>& group) {
    std::vector<std::shared_ptr<Watcher>> watchers;
    {
      const std::lock_guard lock(mutex_);
      const auto found = by_group_.find(qualified_group);
      if (found == by_group_.end()) return;
      for (const auto& known : found->second) {
        if (auto watcher = known.lock()) watchers.push_back(std::move(watcher));
      }
      if (watchers.empty() || !group.has_value()) by_group_.erase(found);
    }
    for (const auto& watcher : watchers) {
      const std::lock_guard calls(watcher->calling);
      const OnTaskGroup call = watcher->on_change;
      if (call != nullptr) call(group);
    }
  }

 private:
  struct Watcher {
    std::recursive_mutex calling;
    OnTaskGroup on_change;  // null: released
  };

  std::mutex mutex_;
  std::map<std::string, std::vector<std::weak_ptr<Watcher>>> by_group_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TASKS_TASK_WATCHERS_H_

// A model of the task service on one page, which the real one is compared with. It has no store, no
// queue and no index. Which of the available tasks a worker gets is the real one's choice; the
// model says which ones it may choose from.
#ifndef SPARSEAGG_TESTS_SIM_TASK_MODEL_H_
#define SPARSEAGG_TESTS_SIM_TASK_MODEL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "service/tasks/task_types.h"

namespace sparseagg::sim {

struct ModelTask {
  TaskState state = TaskState::kAvailable;
  TaskEnd end = TaskEnd::kNone;
  uint32_t attempts = 0;
  uint64_t leases = 0;
  uint64_t token = 0;
  uint64_t answered = 0;  // `token`, if its worker has ended that lease by a call
  int64_t lease_end = 0;  // on the clock of leases
  std::string worker;
  std::string request;  // of the last acquisition
};

struct ModelGroup {
  std::string id;
  std::string round;
  uint64_t order = 0;
  int64_t lease = 0;
  uint32_t attempts_max = 0;
  std::optional<int64_t> deadline;  // on the clock of the world
  std::vector<ModelTask> tasks;
};

class TaskModel {
 public:
  std::map<std::string, ModelGroup> groups;               // by id
  std::set<std::pair<std::string, std::string>> counted;  // round, contributor
  std::set<std::string> open;                             // rounds
  std::set<std::string> closed;                           // the tasks have not been told yet
  std::set<std::string> deleted;                          // as above
  // Acquisitions that have leased something: worker and request id. None leases again.
  std::set<std::pair<std::string, std::string>> requests;
  int64_t lease_clock = 0;
  int64_t world_clock = 0;

  ModelTask& At(const std::string& group, size_t number) {
    return groups.at(group).tasks[number - 1];
  }
  bool IsCounted(const std::string& group, size_t number) const {
    return counted.contains({groups.at(group).round, group + "/" + std::to_string(number)});
  }

  // What every call does first.
  void Settle() {
    for (auto& [id, group] : groups) {
      const bool ends = closed.contains(group.round) || deleted.contains(group.round);
      if (ends) EndAll(group, TaskState::kCancelled, TaskEnd::kRoundClosed);
    }
    std::erase_if(groups, [this](const auto& item) { return deleted.contains(item.second.round); });
    closed.clear();
    deleted.clear();
    for (auto& [id, group] : groups) {
      for (size_t n = 1; n <= group.tasks.size(); ++n) {
        ModelTask& task = group.tasks[n - 1];
        const bool over = task.state == TaskState::kLeased && task.lease_end <= lease_clock;
        if (over) EndLease(group, n);
      }
      if (group.deadline.has_value() && *group.deadline <= world_clock) {
        EndAll(group, TaskState::kFailed, TaskEnd::kDeadline);
      }
    }
  }

  // Each returns the reason of the refusal, or applies the change and returns "".
  std::string Renew(const std::string& group, size_t number, uint64_t token) {
    ModelTask& task = At(group, number);
    if (!Holds(task, token)) return "TASK_FENCED";
    task.lease_end = lease_clock + groups.at(group).lease;
    return "";
  }
  std::string Complete(const std::string& group, size_t number, uint64_t token, bool is_receipt) {
    ModelTask& task = At(group, number);
    if (task.state == TaskState::kCompleted && task.answered == token) return "";
    if (!Holds(task, token)) return "TASK_FENCED";
    if (!IsCounted(group, number)) return "UPDATE_NOT_COUNTED";
    if (!is_receipt) return "RECEIPT_MISMATCH";
    task.answered = token;
    task.state = TaskState::kCompleted;
    return "";
  }
  std::string Fail(const std::string& group, size_t number, uint64_t token, bool retryable,
                   bool handed_back) {
    ModelTask& task = At(group, number);
    if (task.state != TaskState::kLeased && task.answered == token) return "";
    if (!Holds(task, token)) return "TASK_FENCED";
    task.answered = token;
    if (handed_back && !IsCounted(group, number)) --task.attempts;
    if (handed_back || retryable || IsCounted(group, number)) {
      EndLease(groups.at(group), number);
    } else {
      task.state = TaskState::kFailed;
      task.end = TaskEnd::kNotRetryable;
    }
    return "";
  }
  void Cancel(const std::string& group) {
    EndAll(groups.at(group), TaskState::kCancelled, TaskEnd::kRequested);
  }
  // The leases that a repeated acquisition gets, by their tokens.
  std::set<uint64_t> LeasesOf(const std::string& worker, const std::string& request) const {
    std::set<uint64_t> tokens;
    for (const auto& [id, group] : groups) {
      for (const ModelTask& task : group.tasks) {
        const bool is = task.state == TaskState::kLeased && task.worker == worker;
        if (is && task.request == request) tokens.insert(task.token);
      }
    }
    return tokens;
  }
  // A start remembers the acquisitions that tasks show.
  void ForgetRequests() {
    std::set<std::pair<std::string, std::string>> shown;
    for (const auto& [id, group] : groups) {
      for (const ModelTask& task : group.tasks) shown.emplace(task.worker, task.request);
    }
    std::erase_if(requests, [&](const auto& request) { return !shown.contains(request); });
  }
  // The worker has been given this task. Returns "" if it may have been.
  std::string Give(const std::string& group, size_t number, uint64_t token, std::string worker,
                   std::string request) {
    if (!groups.contains(group)) return "of a group that does not exist";
    ModelTask& task = At(group, number);
    if (task.state != TaskState::kAvailable) return "that is not available";
    if (IsCounted(group, number)) return "whose update is counted";
    for (const auto& [id, other] : groups) {
      if (other.order < groups.at(group).order && CountAvailable(other) > 0) {
        return "before those of the earlier group " + id;
      }
    }
    task = {.state = TaskState::kLeased,
            .attempts = task.attempts + 1,
            .leases = task.leases + 1,
            .token = token,
            .answered = 0,
            .lease_end = lease_clock + groups.at(group).lease,
            .worker = std::move(worker),
            .request = std::move(request)};
    return "";
  }
  // A counted task is completed when it would be handed out.
  void CompleteCounted(const std::string& group, size_t number) {
    ModelTask& task = At(group, number);
    if (task.state == TaskState::kAvailable && IsCounted(group, number)) {
      task.state = TaskState::kCompleted;
    }
  }
  size_t CountAvailable(const ModelGroup& group) const {
    size_t available = 0;
    for (size_t n = 1; n <= group.tasks.size(); ++n) {
      const bool is = group.tasks[n - 1].state == TaskState::kAvailable;
      available += is && !IsCounted(group.id, n) ? 1 : 0;
    }
    return available;
  }

 private:
  static bool Holds(const ModelTask& task, uint64_t token) {
    return task.state == TaskState::kLeased && task.token == token;
  }
  void EndLease(const ModelGroup& group, size_t number) {
    ModelTask& task = At(group.id, number);
    if (IsCounted(group.id, number)) {
      task.state = TaskState::kCompleted;
    } else if (task.attempts >= group.attempts_max) {
      task.state = TaskState::kFailed;
      task.end = TaskEnd::kAttemptsExhausted;
    } else {
      task.state = TaskState::kAvailable;
    }
  }
  void EndAll(ModelGroup& group, TaskState state, TaskEnd end) {
    for (size_t n = 1; n <= group.tasks.size(); ++n) {
      ModelTask& task = group.tasks[n - 1];
      if (IsFinal(task.state)) continue;
      const bool counts = IsCounted(group.id, n);
      task.state = counts ? TaskState::kCompleted : state;
      if (!counts) task.end = end;
    }
  }
};

}  // namespace sparseagg::sim

#endif  // SPARSEAGG_TESTS_SIM_TASK_MODEL_H_

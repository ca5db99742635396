#include "service/tasks/task_group.h"

#include <charconv>

#include "service/engine/names.h"
#include "service/tasks/task_names.h"

namespace sparseagg {
namespace {

// The objects and index entries of a group without its strings, and those of one contributor:
// measured with groups of one task and of 50,000 contributors.
constexpr uint64_t kGroupBytes = 2048;
constexpr uint64_t kContributorBytes = 32;

}  // namespace

uint64_t TaskGroupInfo::bytes() const {
  uint64_t bytes = kGroupBytes + name.size() + pool.size() + round.size() + payload->size() +
                   request_id.size() + request_digest.size();
  for (const std::string& contributor : contributors) {
    bytes += kContributorBytes + contributor.size();
  }
  for (const std::string& capability : required_capabilities) {
    bytes += kContributorBytes + capability.size();
  }
  return bytes;
}

TaskGroup::TaskGroup(TaskGroupInfo info)
    : info_(std::move(info)),
      contributor_prefix_(PublicName(info_.name).substr(kTaskGroupPrefix.size())),
      round_created_(info_.round_created),
      tasks_(info_.count),
      is_queued_(info_.count),
      available_count_(info_.count) {}

std::string TaskGroup::ContributorOf(uint32_t number) const {
  std::string buffer;
  return ContributorOf(number, buffer);
}

const std::string& TaskGroup::ContributorOf(uint32_t number, std::string& buffer) const {
  if (!info_.contributors.empty()) return info_.contributors[number - 1];
  constexpr size_t kDigitsMax = 10;
  char digits[kDigitsMax];
  const auto end = std::to_chars(digits, digits + kDigitsMax, number).ptr;
  buffer.assign(contributor_prefix_).append(1, '/').append(digits, end);
  return buffer;
}

uint64_t TaskGroup::CountOf(TaskState state) const {
  switch (state) {
    case TaskState::kAvailable:
      return available_count_;
    case TaskState::kLeased:
      return leased_count_;
    case TaskState::kCompleted:
      return completed_count_;
    case TaskState::kFailed:
      return failed_count_;
    case TaskState::kCancelled:
      break;
  }
  return cancelled_count_;
}

TaskGroupSnapshot TaskGroup::Snapshot() const {
  return {.tenant = std::string(TenantOf(info_.name)),
          .name = std::string(PublicName(info_.name)),
          .pool = info_.pool,
          .round = std::string(PublicName(info_.round)),
          .tasks = tasks_.size(),
          .available = available_count_,
          .leased = leased_count_,
          .completed = completed_count_,
          .failed = failed_count_,
          .cancelled = cancelled_count_,
          .leases = leases_,
          .revision = 1 + completed_count_ + failed_count_ + cancelled_count_,
          .create_time = info_.create_time,
          .deadline = info_.deadline,
          .durability = info_.durability};
}

}  // namespace sparseagg

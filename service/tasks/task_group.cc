#include "service/tasks/task_group.h"

#include "service/engine/names.h"
#include "service/tasks/task_names.h"

namespace sparseagg {

std::string TaskGroup::ContributorOf(uint32_t number) const {
  if (!info_.contributors.empty()) return info_.contributors[number - 1];
  return DefaultContributor(PublicName(info_.name), number);
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

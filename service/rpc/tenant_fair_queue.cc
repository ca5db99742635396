#include "service/rpc/tenant_fair_queue.h"

#include <utility>

namespace sparseagg {

bool TenantFairQueue::Run(const std::string& tenant, std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    auto& jobs = jobs_[tenant];
    if (jobs.size() >= jobs_max_) return false;
    jobs.push_back(std::move(job));
    if (jobs.size() == 1) turns_.push_back(tenant);
  }
  thread_.Run([this] { RunNext(); });
  return true;
}

void TenantFairQueue::RunNext() {
  std::unique_lock lock(mutex_);
  const std::string tenant = std::move(turns_.front());
  turns_.pop_front();
  std::function<void()> job = std::move(jobs_[tenant].front());
  lock.unlock();
  job();
  job = nullptr;  // destroyed outside the lock
  lock.lock();
  auto& jobs = jobs_[tenant];
  jobs.pop_front();
  if (jobs.empty()) {
    jobs_.erase(tenant);
  } else {
    turns_.push_back(tenant);
  }
}

}  // namespace sparseagg

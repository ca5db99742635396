// A fair queue for long jobs: one runs at a time, and tenants take turns. A tenant's next job waits
// for at most one job of each other tenant, however many those have queued, and each tenant has a
// queue of its own.
#ifndef SPARSEAGG_SERVICE_RPC_TENANT_FAIR_QUEUE_H_
#define SPARSEAGG_SERVICE_RPC_TENANT_FAIR_QUEUE_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "service/rpc/background.h"

namespace sparseagg {

// Thread-safe. The destructor runs the queued jobs.
class TenantFairQueue {
 public:
  // `jobs_max` is the limit for each tenant, the running job included.
  explicit TenantFairQueue(size_t jobs_max) : jobs_max_(jobs_max) {}

  // Queues `job`. Returns false if the tenant has jobs_max jobs already.
  bool Run(const std::string& tenant, std::function<void()> job);

 private:
  void RunNext();

  const size_t jobs_max_;
  std::mutex mutex_;
  // Guarded by mutex_. A tenant's first job stays here while it runs, and the tenant is not in
  // turns_ then.
  std::map<std::string, std::deque<std::function<void()>>> jobs_;
  std::deque<std::string> turns_;
  Background thread_{1, "verify"};  // last: uses the others
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_TENANT_FAIR_QUEUE_H_

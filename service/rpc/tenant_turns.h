// Long jobs, one after the other, the tenants in turn: whoever has one waits for one of each other
// tenant at most, however many those have, and has places of its own to wait in.
#ifndef SPARSEAGG_SERVICE_RPC_TENANT_TURNS_H_
#define SPARSEAGG_SERVICE_RPC_TENANT_TURNS_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "service/rpc/background.h"

namespace sparseagg {

// Thread-safe. The destructor runs what waits.
class TenantTurns {
 public:
  // `jobs_max`: of each tenant, the one under way among them.
  explicit TenantTurns(size_t jobs_max) : jobs_max_(jobs_max) {}

  // False: the tenant has as many as it may have.
  bool Run(const std::string& tenant, std::function<void()> job);

 private:
  void RunNext();

  const size_t jobs_max_;
  std::mutex mutex_;
  // Guarded by mutex_. A tenant's first job stays while it is under way; then the tenant has no
  // turn.
  std::map<std::string, std::deque<std::function<void()>>> jobs_;
  std::deque<std::string> turns_;
  Background thread_{1, "verify"};  // last: uses the others
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_TENANT_TURNS_H_

// Calls that would otherwise last as long as their client wishes (watchers, waiters, idle streams).
// They end when the server stops, so that a stop takes as long as the work under way, not as long
// as the longest watcher; and those that keep the server waiting are asked now and again whether
// they have done so for too long.
#ifndef SPARSEAGG_SERVICE_RPC_DRAIN_LIST_H_
#define SPARSEAGG_SERVICE_RPC_DRAIN_LIST_H_

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

namespace sparseagg {

class DrainableCall {
 public:
  virtual ~DrainableCall() = default;
  // Ends the call soon, with DrainingError() unless it has its answer already. Any thread; never
  // blocks.
  virtual void Drain() = 0;
  // Ends the call if it has kept the server waiting too long. As Drain().
  virtual void CheckTime(std::chrono::steady_clock::time_point /*now*/) {}
};

// Thread-safe.
class DrainList {
 public:
  // Drains `call` at once when the server is stopping already. Ended calls are forgotten by
  // themselves.
  void Add(const std::shared_ptr<DrainableCall>& call);
  void DrainAll();
  void CheckTimes(std::chrono::steady_clock::time_point now);

 private:
  std::mutex mutex_;
  bool draining_ = false;
  std::vector<std::weak_ptr<DrainableCall>> calls_;
  size_t sweep_at_ =
      64;  // calls_.size() at which ended calls are dropped; doubles with the live ones
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_DRAIN_LIST_H_

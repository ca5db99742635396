// The list of calls whose length the client decides (WatchRound, WaitRound, idle streams). The
// server ends them when it stops, so that a stop takes as long as the work in progress and not as
// long as the longest watch. While it serves, it checks each of them regularly for clients that
// keep it waiting too long.
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
  // Ends the call soon, with DrainingError() unless its answer is ready. Thread-safe; never blocks.
  virtual void Drain() = 0;
  // Ends the call if its client has kept the server waiting too long. Thread-safe; never blocks.
  virtual void CheckTime(std::chrono::steady_clock::time_point /*now*/) {}
};

// Thread-safe.
class DrainList {
 public:
  // Drains `call` at once if DrainAll() was called before. Calls that have ended need not be
  // removed.
  void Add(const std::shared_ptr<DrainableCall>& call);
  void DrainAll();
  void CheckTimes(std::chrono::steady_clock::time_point now);

 private:
  std::mutex mutex_;
  bool draining_ = false;
  std::vector<std::weak_ptr<DrainableCall>> calls_;
  size_t sweep_at_ =
      64;  // calls_.size() at which ended calls are removed; then twice the live ones
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_DRAIN_LIST_H_

// One commit for many callers: whoever finds nobody committing takes everything that waits as one
// group, the others wait for their group. A commit to disk costs a fixed time, so that its share
// for each caller falls as callers grow.
#ifndef SPARSEAGG_SERVICE_STORE_GROUP_COMMIT_H_
#define SPARSEAGG_SERVICE_STORE_GROUP_COMMIT_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace sparseagg {

// Thread-safe. Of one group, items are in the order of their calls.
template <class Item>
class GroupCommit {
 public:
  explicit GroupCommit(std::function<void(std::span<Item* const>)> commit)
      : commit_(std::move(commit)) {}

  // Returns when `item` was part of a group that was committed.
  void Run(Item& item) {
    Waiter waiter;
    std::unique_lock lock(mutex_);
    items_.push_back(&item);
    waiters_.push_back(&waiter);
    while (!waiter.done) {
      if (committing_) {
        changed_.wait(lock);
      } else {
        CommitAll(lock);
      }
    }
  }

 private:
  struct Waiter {
    bool done = false;
  };

  void CommitAll(std::unique_lock<std::mutex>& lock) {
    committing_ = true;
    const std::vector<Item*> group = std::exchange(items_, {});
    const std::vector<Waiter*> waiters = std::exchange(waiters_, {});
    lock.unlock();
    commit_(group);
    lock.lock();
    for (Waiter* waiter : waiters) waiter->done = true;
    committing_ = false;
    changed_.notify_all();
  }

  const std::function<void(std::span<Item* const>)> commit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool committing_ = false;
  std::vector<Item*> items_;  // that wait for the next group
  std::vector<Waiter*> waiters_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_GROUP_COMMIT_H_

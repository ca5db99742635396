// One commit for many callers: whoever finds nobody committing takes everything that waits as one
// group, the others wait for their group. A commit to disk costs a fixed time, so that its share
// for each caller falls as callers grow.
#ifndef SPARSEAGG_SERVICE_STORE_GROUP_COMMIT_H_
#define SPARSEAGG_SERVICE_STORE_GROUP_COMMIT_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
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
  // `on_commit` hears of each commit, by the thread that made it.
  explicit GroupCommit(
      std::function<void(std::span<Item* const>)> commit,
      std::function<void(size_t items, double seconds)> on_commit = [](size_t, double) {})
      : commit_(std::move(commit)), on_commit_(std::move(on_commit)) {}

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
    const auto start = std::chrono::steady_clock::now();
    commit_(group);
    on_commit_(group.size(),
               std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    lock.lock();
    for (Waiter* waiter : waiters) waiter->done = true;
    committing_ = false;
    changed_.notify_all();
  }

  const std::function<void(std::span<Item* const>)> commit_;
  const std::function<void(size_t items, double seconds)> on_commit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool committing_ = false;
  std::vector<Item*> items_;  // that wait for the next group
  std::vector<Waiter*> waiters_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_GROUP_COMMIT_H_

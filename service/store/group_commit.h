// Group commit: a caller that finds no commit in progress commits everything that waits as one
// group; the other callers wait for their group. A commit to disk takes a fixed time, so its share
// for each caller falls as the number of callers grows.
#ifndef SPARSEAGG_SERVICE_STORE_GROUP_COMMIT_H_
#define SPARSEAGG_SERVICE_STORE_GROUP_COMMIT_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace sparseagg {

// Thread-safe. The items of a group are in the order of their calls.
template <class Item>
class GroupCommit {
 public:
  // `on_commit` is called after each commit, on the thread that made it.
  explicit GroupCommit(
      std::function<void(std::span<Item* const>)> commit,
      std::function<void(size_t items, double seconds)> on_commit = [](size_t, double) {})
      : commit_(std::move(commit)), on_commit_(std::move(on_commit)) {}

  // Returns after the group that contains `item` is committed.
  void Run(Item& item) {
    std::unique_lock lock(mutex_);
    const std::shared_ptr<Group> group = next_;
    group->items.push_back(&item);
    group->changed.wait(lock, [&] { return group->done || !committing_; });
    if (group->done) return;
    committing_ = true;
    next_ = std::make_shared<Group>();
    lock.unlock();
    const auto start = std::chrono::steady_clock::now();
    commit_(group->items);
    on_commit_(group->items.size(),
               std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    lock.lock();
    group->done = true;
    committing_ = false;
    const std::shared_ptr<Group> next = next_;
    lock.unlock();
    group->changed.notify_all();
    next->changed.notify_one();  // one waiter commits the next group; the others stay asleep
  }

 private:
  struct Group {
    std::vector<Item*> items;
    bool done = false;
    std::condition_variable changed;
  };

  const std::function<void(std::span<Item* const>)> commit_;
  const std::function<void(size_t items, double seconds)> on_commit_;
  std::mutex mutex_;
  bool committing_ = false;
  std::shared_ptr<Group> next_ = std::make_shared<Group>();  // collects items during a commit
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_GROUP_COMMIT_H_

#include "service/engine/watchers.h"

#include <condition_variable>
#include <limits>
#include <thread>
#include <utility>

namespace sparseagg {

class Watchers::Watcher {
 public:
  explicit Watcher(OnChange on_change) : on_change_(std::move(on_change)) {}

  void Tell(uint64_t revision, const std::optional<RoundSnapshot>& snapshot) {
    std::unique_lock lock(mutex_);
    if (cancelled_ || revision <= newest_) return;
    newest_ = revision;
    pending_.emplace(snapshot);
    if (caller_ != std::thread::id()) return;  // that thread tells it
    caller_ = std::this_thread::get_id();
    while (pending_.has_value() && !cancelled_) {
      const std::optional<RoundSnapshot> told = *std::exchange(pending_, std::nullopt);
      lock.unlock();
      on_change_(told);
      lock.lock();
    }
    caller_ = std::thread::id();
    call_ended_.notify_all();
  }

  void Cancel() {
    std::unique_lock lock(mutex_);
    cancelled_ = true;
    if (caller_ == std::this_thread::get_id()) return;
    call_ended_.wait(lock, [this] { return caller_ == std::thread::id(); });
  }

 private:
  const OnChange on_change_;
  std::mutex mutex_;
  std::condition_variable call_ended_;
  std::thread::id caller_;  // of the call under way; none: the default id
  uint64_t newest_ = 0;     // revision told or pending
  std::optional<std::optional<RoundSnapshot>> pending_;
  bool cancelled_ = false;
};

WatchHandle Watchers::Add(OnChange on_change) {
  auto watcher = std::make_shared<Watcher>(std::move(on_change));
  {
    std::lock_guard lock(mutex_);
    std::erase_if(watchers_, [](const auto& known) { return known.expired(); });
    watchers_.push_back(watcher);
  }
  void* const address = watcher.get();
  return WatchHandle(address, [watcher = std::move(watcher)](void*) mutable {
    watcher->Cancel();
    watcher.reset();
  });
}

bool Watchers::empty() const {
  std::lock_guard lock(mutex_);
  return watchers_.empty();
}

std::vector<std::shared_ptr<Watchers::Watcher>> Watchers::Active() {
  std::vector<std::shared_ptr<Watcher>> active;
  std::lock_guard lock(mutex_);
  std::erase_if(watchers_, [](const auto& known) { return known.expired(); });
  active.reserve(watchers_.size());
  for (const auto& known : watchers_) {
    if (auto watcher = known.lock()) active.push_back(std::move(watcher));
  }
  return active;
}

void Watchers::Notify(const RoundSnapshot& snapshot) {
  for (const auto& watcher : Active()) watcher->Tell(snapshot.revision, snapshot);
}

void Watchers::NotifyDeleted() {
  for (const auto& watcher : Active()) {
    watcher->Tell(std::numeric_limits<uint64_t>::max(), std::nullopt);
  }
}

}  // namespace sparseagg

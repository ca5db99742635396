#include "service/engine/round/watchers.h"

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <thread>
#include <utility>

namespace sparseagg {

namespace {

constexpr size_t kPruneAtMin = 64;

}  // namespace

// A state, or nullopt if the round is deleted. All watchers share it.
using Change = std::shared_ptr<const std::optional<RoundSnapshot>>;

class Watchers::Watcher {
 public:
  explicit Watcher(OnChange on_change) : on_change_(std::move(on_change)) {}

  void Deliver(uint64_t revision, const Change& change) {
    std::unique_lock lock(mutex_);
    if (cancelled_ || revision <= newest_) return;
    newest_ = revision;
    pending_ = change;
    if (caller_ != std::thread::id()) return;  // the calling thread delivers it
    caller_ = std::this_thread::get_id();
    while (pending_ != nullptr && !cancelled_) {
      const Change delivered = std::exchange(pending_, nullptr);
      lock.unlock();
      on_change_(*delivered);
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
  std::thread::id caller_;  // thread of the call in progress; default id: none
  uint64_t newest_ = 0;     // newest revision delivered or pending
  Change pending_;
  bool cancelled_ = false;
};

WatchHandle Watchers::Add(WatchScope what, OnChange on_change) {
  auto watcher = std::make_shared<Watcher>(std::move(on_change));
  {
    std::lock_guard lock(mutex_);
    // Expired watchers are not removed at every call, because many clients may watch one after the
    // other.
    if (for_every_change_.size() + for_end_.size() >= std::max(prune_at_, kPruneAtMin)) {
      for (Known* known : {&for_every_change_, &for_end_}) {
        std::erase_if(*known, [](const auto& watcher) { return watcher.expired(); });
      }
      prune_at_ = 2 * (for_every_change_.size() + for_end_.size());
    }
    (what == WatchScope::kEveryChange ? for_every_change_ : for_end_).push_back(watcher);
  }
  void* const address = watcher.get();
  return WatchHandle(address, [watcher = std::move(watcher)](void*) mutable {
    watcher->Cancel();
    watcher.reset();
  });
}

bool Watchers::AnyForEveryChange() const {
  std::lock_guard lock(mutex_);
  return !for_every_change_.empty();
}

void Watchers::CollectLocked(Known& known, std::vector<std::shared_ptr<Watcher>>& active) {
  active.reserve(active.size() + known.size());
  std::erase_if(known, [&](const auto& weak) {
    auto watcher = weak.lock();
    if (watcher == nullptr) return true;
    active.push_back(std::move(watcher));
    return false;
  });
}

void Watchers::Notify(RoundSnapshot snapshot) {
  const bool is_end = IsFinal(snapshot.state);
  std::vector<std::shared_ptr<Watcher>> active;
  {
    std::lock_guard lock(mutex_);
    CollectLocked(for_every_change_, active);
    if (is_end) CollectLocked(for_end_, active);
  }
  if (active.empty()) return;
  const uint64_t revision = snapshot.revision;
  const auto change = std::make_shared<const std::optional<RoundSnapshot>>(std::move(snapshot));
  for (const auto& watcher : active) watcher->Deliver(revision, change);
}

void Watchers::NotifyDeleted() {
  std::vector<std::shared_ptr<Watcher>> active;
  {
    std::lock_guard lock(mutex_);
    CollectLocked(for_every_change_, active);
    CollectLocked(for_end_, active);
  }
  const auto deleted = std::make_shared<const std::optional<RoundSnapshot>>();
  constexpr uint64_t kAfterAll = std::numeric_limits<uint64_t>::max();
  for (const auto& watcher : active) watcher->Deliver(kAfterAll, deleted);
}

}  // namespace sparseagg

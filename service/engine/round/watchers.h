// Those who want to know of changes of a round. Each is called from one thread at a time, in the
// order of revisions; changes that happen during a call are told by one more call, with the newest
// state. A state is copied once, however many are told.
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_WATCHERS_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_WATCHERS_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "service/engine/engine.h"

namespace sparseagg {

using OnChange = std::function<void(const std::optional<RoundSnapshot>&)>;

// Thread-safe.
class Watchers {
 public:
  // Releasing the handle waits for a call under way, unless it is released in that call.
  WatchHandle Add(WatchFor what, OnChange on_change);

  // Whether somebody may want to know of a change that is not the end.
  bool AnyForEveryChange() const;

  // Calls those who want to know of this state; holds no lock meanwhile, so a call may use the
  // engine and may release its own handle. An older revision than was told before is left out.
  void Notify(RoundSnapshot snapshot);
  // The last call: the round is deleted.
  void NotifyDeleted();

 private:
  class Watcher;
  using Known = std::vector<std::weak_ptr<Watcher>>;
  // Adds those that are left of `known` to `active`, and forgets the others.
  static void CollectLocked(Known& known, std::vector<std::shared_ptr<Watcher>>& active);

  mutable std::mutex mutex_;
  Known for_every_change_;
  Known for_end_;
  size_t forget_at_ = 0;  // so many are known when those that are gone are looked for
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_WATCHERS_H_

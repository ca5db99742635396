// The watchers of a round's changes. Each is called from one thread at a time, in the order of
// revisions. Changes that happen during a call are reported by one more call, with the newest
// state. A state is copied once, however many watchers receive it.
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
  // Adds a watcher. Releasing the handle waits for a call in progress, unless the handle is
  // released in that call.
  WatchHandle Add(WatchScope what, OnChange on_change);

  // Returns whether there may be a watcher of kEveryChange.
  bool AnyForEveryChange() const;

  // Calls the watchers of this state. No lock is held during the calls, so a watcher may use the
  // engine and may release its own handle. A watcher is not called with an older revision than
  // before.
  void Notify(RoundSnapshot snapshot);
  // Makes the last call to every watcher: the round is deleted.
  void NotifyDeleted();

 private:
  class Watcher;
  using Known = std::vector<std::weak_ptr<Watcher>>;
  // Adds the live watchers of `known` to `active` and removes the others from `known`.
  static void CollectLocked(Known& known, std::vector<std::shared_ptr<Watcher>>& active);

  mutable std::mutex mutex_;
  Known for_every_change_;
  Known for_end_;
  size_t prune_at_ = 0;  // number of watchers at which expired ones are removed next
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_WATCHERS_H_

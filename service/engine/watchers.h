// Those who want to know of changes of a round. Each is called from one thread at a time, in the
// order of revisions; changes that happen during a call are told by one more call, with the newest
// state.
#ifndef SPARSEAGG_SERVICE_ENGINE_WATCHERS_H_
#define SPARSEAGG_SERVICE_ENGINE_WATCHERS_H_

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
  WatchHandle Add(OnChange on_change);

  bool empty() const;

  // Calls everybody; holds no lock meanwhile, so a call may use the engine and may release its own
  // handle. An older revision than was told before is left out.
  void Notify(const RoundSnapshot& snapshot);
  // The last call: the round is deleted.
  void NotifyDeleted();

 private:
  class Watcher;
  std::vector<std::shared_ptr<Watcher>> Active();

  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<Watcher>> watchers_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_WATCHERS_H_

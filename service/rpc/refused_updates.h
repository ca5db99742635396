// Updates of a stream that were refused in the middle of their chunks: what is still under way of
// them is skipped without further errors.
#ifndef SPARSEAGG_SERVICE_RPC_REFUSED_UPDATES_H_
#define SPARSEAGG_SERVICE_RPC_REFUSED_UPDATES_H_

#include <cstddef>
#include <set>
#include <string>

#include "service/engine/names.h"

namespace sparseagg {

// Thread-compatible.
class RefusedUpdates {
 public:
  static constexpr size_t kMax = 512;  // about 150 bytes each

  // Forgets all the others when there are many: their next chunk is then answered with an error
  // once more. Ids that no update can have are not kept at all, as they may be long.
  void Add(const std::string& update_id) {
    if (!ValidateUpdateId(update_id).ok()) return;
    if (ids_.size() >= kMax) ids_.clear();
    ids_.insert(update_id);
  }
  void Remove(const std::string& update_id) { ids_.erase(update_id); }

  bool Contains(const std::string& update_id) const { return ids_.contains(update_id); }
  size_t size() const { return ids_.size(); }

 private:
  std::set<std::string> ids_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_REFUSED_UPDATES_H_

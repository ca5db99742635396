// The chunked updates of a stream that were refused before their last chunk: their remaining chunks
// are skipped without further errors.
#ifndef SPARSEAGG_SERVICE_RPC_WIRE_REFUSED_UPDATES_H_
#define SPARSEAGG_SERVICE_RPC_WIRE_REFUSED_UPDATES_H_

#include <cstddef>
#include <set>
#include <string>

namespace sparseagg {

// Thread-compatible.
class RefusedUpdates {
 public:
  static constexpr size_t kMax = 512;  // about 150 bytes each

  // Drops all others when there are kMax: their next chunk is then answered with an error once
  // more.
  void Add(const std::string& update_id) {
    if (ids_.size() >= kMax) ids_.clear();
    ids_.insert(Truncated(update_id));
  }
  void Remove(const std::string& update_id) { ids_.erase(Truncated(update_id)); }

  bool Contains(const std::string& update_id) const { return ids_.contains(Truncated(update_id)); }
  size_t size() const { return ids_.size(); }

 private:
  // An invalid id may be long. Valid ids have at most 64 bytes (service/engine/names.h), so 65
  // bytes are enough to tell it from them.
  static std::string Truncated(const std::string& update_id) { return update_id.substr(0, 65); }

  std::set<std::string> ids_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_WIRE_REFUSED_UPDATES_H_

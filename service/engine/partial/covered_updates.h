// The contributors of a round that partial aggregates have brought: each is counted once, whether
// its update came to this server or to one below it.
#ifndef SPARSEAGG_SERVICE_ENGINE_PARTIAL_COVERED_UPDATES_H_
#define SPARSEAGG_SERVICE_ENGINE_PARTIAL_COVERED_UPDATES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "service/store/store.h"

namespace sparseagg {

// Thread-compatible.
class CoveredUpdates {
 public:
  uint64_t partials() const { return by_node_.size(); }
  uint64_t contributors() const { return node_of_.size(); }

  // Returns ALREADY_EXISTS (CONTRIBUTORS_OVERLAP), naming the first contributor that is counted
  // already, in another partial aggregate or by an update that `is_counted` knows, or that has the
  // name of `node` itself.
  absl::Status CheckDisjoint(
      std::string_view node, const std::vector<UpdateRecord>& covered,
      const std::function<bool(const std::string& contributor)>& is_counted) const;

  // Returns ALREADY_EXISTS (CONTRIBUTOR_ALREADY_COUNTED) for a contributor that a partial aggregate
  // covers.
  absl::Status CheckNotCovered(std::string_view contributor) const;

  // REQUIRES: CheckDisjoint() is OK.
  void Add(std::string node, std::vector<UpdateRecord> covered);

  // Replaces the records of partial aggregates by those of the updates that they cover.
  std::vector<UpdateRecord> Expand(std::vector<UpdateRecord> accepted) const;

 private:
  std::map<std::string, std::vector<UpdateRecord>, std::less<>> by_node_;
  // Keys and values point into by_node_.
  std::unordered_map<std::string_view, std::string_view> node_of_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_PARTIAL_COVERED_UPDATES_H_

// Where the rounds that a client used live: in which epoch of which store. When one is gone, that
// tells whether the server lost it with its memory or its data.
#ifndef SPARSEAGG_CLIENT_TRANSPORT_BIRTHS_H_
#define SPARSEAGG_CLIENT_TRANSPORT_BIRTHS_H_

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/types.h"

namespace sparseagg::client {

struct Birth {
  Durability durability = Durability::kServerDefault;
  StoreEpoch epoch;
};

// Thread-safe. Remembers the rounds used first lately.
class Births {
 public:
  // The last one of a round counts: a name may be given again after the round of that name is lost.
  void Note(const std::string& round, const Birth& birth);
  std::optional<Birth> Find(const std::string& round) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Birth> by_round_;
  std::deque<std::string> order_;
};

// NOT_FOUND (ROUND_LOST), which says what happened, where the server's epoch explains `error`;
// otherwise `error`.
absl::Status WhyNotFound(const absl::Status& error, const Birth& birth, const StoreEpoch& now);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TRANSPORT_BIRTHS_H_

// Remembers the store and epoch in which each round that a client used was seen. If a round is not
// found later, they show whether the server has lost it with its memory or its data.
#ifndef SPARSEAGG_CLIENT_TRANSPORT_ROUND_ORIGINS_H_
#define SPARSEAGG_CLIENT_TRANSPORT_ROUND_ORIGINS_H_

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/types.h"

namespace sparseagg::client {

struct RoundOrigin {
  Durability durability = Durability::kServerDefault;
  StoreEpoch epoch;
};

// Thread-safe. Keeps a bounded number of rounds, and drops those that were added first.
class RoundOrigins {
 public:
  // A later call replaces the earlier one, because a name may be used again after its round was
  // lost.
  void Record(const std::string& round, const RoundOrigin& origin);
  std::optional<RoundOrigin> Find(const std::string& round) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, RoundOrigin> by_round_;
  std::deque<std::string> order_;
};

// Returns NOT_FOUND (ROUND_LOST), which says what happened, if the server's epoch `now` explains
// `error`; otherwise `error`.
absl::Status ExplainNotFound(const absl::Status& error, const RoundOrigin& origin,
                             const StoreEpoch& now);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TRANSPORT_ROUND_ORIGINS_H_

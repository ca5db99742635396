#include "client/transport/round_origins.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg::client {
namespace {

constexpr size_t kRoundsMax = 4096;

std::string DescribeLoss(const RoundOrigin& origin, const StoreEpoch& now) {
  const bool memory = origin.durability == Durability::kMemory;
  const StoreEpoch& then = origin.epoch;
  if (now.store_id != then.store_id && memory) {
    return "was kept in memory only, and the server that had it is another process now";
  }
  if (now.store_id != then.store_id) {
    return absl::StrCat("was in store ", then.store_id, "; the server's data directory is ",
                        now.store_id, " now");
  }
  if (now.epoch < then.epoch) {
    return absl::StrCat("is gone: the server's data was set back, from epoch ", then.epoch, " to ",
                        now.epoch);
  }
  if (now.epoch > then.epoch && memory) {
    return "was kept in memory only, and the server was started again since";
  }
  return "";
}

}  // namespace

void RoundOrigins::Record(const std::string& round, const RoundOrigin& origin) {
  std::lock_guard lock(mutex_);
  if (!by_round_.insert_or_assign(round, origin).second) return;
  order_.push_back(round);
  if (order_.size() <= kRoundsMax) return;
  by_round_.erase(order_.front());
  order_.pop_front();
}

std::optional<RoundOrigin> RoundOrigins::Find(const std::string& round) const {
  std::lock_guard lock(mutex_);
  const auto found = by_round_.find(round);
  if (found == by_round_.end()) return std::nullopt;
  return found->second;
}

absl::Status ExplainNotFound(const absl::Status& error, const RoundOrigin& origin,
                             const StoreEpoch& now) {
  if (now.epoch == 0 || origin.epoch.epoch == 0)
    return error;  // an old server, which sends no epoch
  const std::string what = DescribeLoss(origin, now);
  if (what.empty()) return error;
  return MakeError(absl::StatusCode::kNotFound, "ROUND_LOST",
                   absl::StrCat(error.message(), ": it ", what, "; create it again"));
}

}  // namespace sparseagg::client

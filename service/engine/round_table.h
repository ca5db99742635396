// The rounds that exist, by qualified name, with the requests that created them, and the names of
// erased rounds. An erased name is not forgotten before its time, since a late retry could then
// count twice. Every round becomes an erased name in the end, so new rounds are refused when there
// are too many of those.
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_TABLE_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_TABLE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/engine/round/round.h"

namespace sparseagg {

// Returns how many names of erased rounds are remembered if `rounds_max` rounds may exist. Each
// takes less than half a KB.
inline uint64_t ErasedNamesMax(uint64_t rounds_max) {
  return std::max<uint64_t>(100'000, 1000 * rounds_max);
}

// Thread-safe.
class RoundTable {
 public:
  explicit RoundTable(uint64_t rounds_max) : rounds_max_(rounds_max) {}

  // Returns the round that an earlier call with this request created, or null. Errors:
  // INVALID_ARGUMENT (REQUEST_ID_CONFLICT) if that call had another specification; ALREADY_EXISTS
  // (ROUND_EXISTS) if another request created a round of this name, or did so recently;
  // RESOURCE_EXHAUSTED (ROUNDS_FULL, TENANT_ROUNDS_FULL, ROUND_NAMES_FULL). A request is remembered
  // as long as its round exists. REQUIRES: args.spec is normalised.
  absl::StatusOr<std::shared_ptr<Round>> FindRequest(const CreateRoundArgs& args) const;

  // Inserts a round after the checks of FindRequest(). If an equal request was faster, returns the
  // round of that request. Calls `open_in_store` once the name is known to be free, and returns its
  // error if it fails.
  absl::StatusOr<std::shared_ptr<Round>> Insert(const CreateRoundArgs& args,
                                                std::shared_ptr<Round> round,
                                                const std::function<absl::Status()>& open_in_store);

  // Errors: INVALID_ARGUMENT (INVALID_ROUND_NAME), NOT_FOUND (ROUND_NOT_FOUND, ROUND_EXPIRED).
  absl::StatusOr<std::shared_ptr<Round>> Find(std::string_view name) const;
  // Returns whether the round exists or its name is still remembered.
  bool Contains(const std::string& name) const;
  // Returns at most `limit` rounds with a qualified name above `after`, in ascending order.
  std::vector<std::shared_ptr<Round>> List(std::string_view after, size_t limit) const;
  void Erase(const Round& round);
  // Remembers the name of an erased round, so that it is not used again.
  void Remember(const Tombstone& tombstone);
  // Forgets names and returns whether there were any. The time it takes depends on the forgotten
  // names only.
  bool ForgetErasedBefore(std::chrono::system_clock::time_point time);
  size_t size() const {
    std::lock_guard lock(mutex_);
    return by_name_.size();
  }

 private:
  struct Entry {
    std::shared_ptr<Round> round;
    CreateRoundArgs args;
  };
  absl::StatusOr<std::shared_ptr<Round>> FindRequestLocked(const CreateRoundArgs& args) const;
  // Forgets at most kForgetBatch names and returns how many.
  size_t ForgetSome(std::chrono::system_clock::time_point erased_before);
  // Returns RESOURCE_EXHAUSTED (ROUND_NAMES_FULL), with a time to retry after, if too many names
  // are remembered.
  absl::Status CheckErasedLocked(const CreateRoundArgs& args) const;

  const uint64_t rounds_max_;
  std::mutex insertion_;  // taken before mutex_; mutex_ is not held during disk I/O
  mutable std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> by_name_;
  std::map<std::string, Tombstone, std::less<>> erased_;
  // The same names by time; each points into a key of erased_.
  std::set<std::pair<std::chrono::system_clock::time_point, std::string_view>> erased_by_time_;
  using Request = std::pair<std::string, std::string>;  // tenant, request id
  static Request RequestOf(const CreateRoundArgs& args) { return {args.tenant, args.request_id}; }
  std::map<Request, std::string> name_by_request_;
  using Counts = std::map<std::string, uint64_t, std::less<>>;
  static uint64_t CountOf(const Counts& counts, std::string_view tenant);
  Counts rounds_by_tenant_;
  Counts erased_by_tenant_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_TABLE_H_

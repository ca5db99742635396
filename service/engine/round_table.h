// The rounds that exist, by qualified name, and the requests that created them; the names of those
// that were erased. These are never forgotten early, lest a late retry counts twice, so that no new
// round comes when they are many: each becomes one of them.
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

// How many names of erased rounds are remembered where so many rounds may exist: less than half a
// KB each.
inline uint64_t ErasedNamesMax(uint64_t rounds_max) {
  return std::max<uint64_t>(100'000, 1000 * rounds_max);
}

// Thread-safe.
class RoundTable {
 public:
  explicit RoundTable(uint64_t rounds_max) : rounds_max_(rounds_max) {}

  // The round that an earlier call with this request made, or null. INVALID_ARGUMENT
  // (REQUEST_ID_CONFLICT) when that call asked for something else; ALREADY_EXISTS (ROUND_EXISTS)
  // when another request made a round of the name, or lately did; RESOURCE_EXHAUSTED (ROUNDS_FULL,
  // TENANT_ROUNDS_FULL, ROUND_NAMES_FULL). A request is remembered as long as its round exists.
  // REQUIRES: args.spec is normalised.
  absl::StatusOr<std::shared_ptr<Round>> FindRequest(const CreateRoundArgs& args) const;

  // Enters a round, checked again as in FindRequest(): the round of an equal request that was
  // faster is returned instead. `open_books` is called once the name is known to be free; its error
  // ends the call.
  absl::StatusOr<std::shared_ptr<Round>> Insert(const CreateRoundArgs& args,
                                                std::shared_ptr<Round> round,
                                                const std::function<absl::Status()>& open_books);

  // INVALID_ARGUMENT (INVALID_ROUND_NAME), NOT_FOUND (ROUND_NOT_FOUND, ROUND_EXPIRED).
  absl::StatusOr<std::shared_ptr<Round>> Find(std::string_view name) const;
  // Whether there is such a round, or was until lately.
  bool Contains(const std::string& name) const;
  // With a qualified name above `after`, ascending, at most `limit`.
  std::vector<std::shared_ptr<Round>> List(std::string_view after, size_t limit) const;
  void Erase(const Round& round);
  // Remembers the name of a round that was erased: it is not given again.
  void Remember(const Tombstone& tombstone);
  // Forgets names; true when there were any. Takes time for those, and not for the others.
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
  // At most kForgottenAtOnce of them; how many.
  size_t ForgetSome(std::chrono::system_clock::time_point erased_before);
  // RESOURCE_EXHAUSTED (ROUND_NAMES_FULL), with a time to wait.
  absl::Status CheckErasedLocked(const CreateRoundArgs& args) const;

  const uint64_t rounds_max_;
  std::mutex insertion_;  // taken before mutex_, which is not held while a disk is waited for
  mutable std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> by_name_;
  std::map<std::string, Tombstone, std::less<>> erased_;
  // The same, by time. The names are those of erased_.
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

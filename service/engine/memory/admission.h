// Admission by bytes: memory is reserved from a budget before any of it is taken, so that senders
// cannot make the server run out of memory. The engine has two budgets of memory: staging, for
// updates that are not folded in yet, and aggregation, for what rounds hold of them; and one of
// disk, for updates that arrive in chunks. A tenant has a budget of its own; what it takes is taken
// from both.
#ifndef SPARSEAGG_SERVICE_ENGINE_MEMORY_ADMISSION_H_
#define SPARSEAGG_SERVICE_ENGINE_MEMORY_ADMISSION_H_

#include <array>
#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>

#include "absl/status/statusor.h"

namespace sparseagg {

class Admission;
class Claim;

// Bytes of the budget; given back when destroyed. Must not outlive its Admission.
// Thread-compatible.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation();

  uint64_t bytes() const { return bytes_; }
  // States what is really held, more or less than was reserved. REQUIRES: reserved.
  void SetBytes(uint64_t bytes);
  // Cuts `bytes` off. REQUIRES: bytes <= bytes().
  Reservation Split(uint64_t bytes);

 private:
  friend class Admission;
  friend class Claim;
  Reservation(Admission* admission, uint64_t bytes) : admission_(admission), bytes_(bytes) {}

  Admission* admission_ = nullptr;
  uint64_t bytes_ = 0;
};

// Memory that is taken bit by bit: announced as a whole, reserved as it is needed. So many can be
// under way that together could never be served, and still each comes to its end, since the oldest
// can always go on: what the others take leaves room for the largest of them.
//
//   free + held by the oldest >= the largest need of all claims
//
// When the oldest ends and gives back what it held, the same holds for the next. What is reserved
// beside the claims leaves that room, too. While much is free, a claim can be settled at once
// (TakeOfPlenty(), then Settle()).
//
// Gives back everything when destroyed. Must not outlive its Admission. Thread-compatible.
class Claim {
 public:
  Claim() = default;
  Claim(Claim&& other) noexcept;
  Claim& operator=(Claim&& other) noexcept;
  ~Claim();

  // RESOURCE_EXHAUSTED with the budget's reasons and a time to wait; what is held stays. REQUIRES:
  // announced, and no more than was announced in all.
  absl::Status Take(uint64_t bytes);
  // The same as a reservation of its own, which may outlive the claim.
  absl::StatusOr<Reservation> TakeApart(uint64_t bytes);
  // The same beside all that was announced, only while much is free: half of the budget stays so.
  absl::StatusOr<Reservation> TakeOfPlenty(uint64_t bytes);
  // What was announced and is not held is not needed any more; the next claim is the oldest then.
  // REQUIRES: nothing is taken afterwards.
  void Settle();
  // Of what is held. REQUIRES: as much is.
  void GiveBack(uint64_t bytes);

 private:
  friend class Admission;
  struct State {
    uint64_t need = 0;
    uint64_t held = 0;
    bool settled = false;
  };
  using Place = std::list<State>::iterator;
  Claim(Admission* admission, Place place) : admission_(admission), place_(place) {}

  // Takes from both budgets or from none. `held`: until the claim ends.
  absl::Status Reserve(uint64_t bytes, bool held);
  void Unreserve(uint64_t bytes, bool held);
  absl::Status ReserveOfPlenty(uint64_t bytes);

  Admission* admission_ = nullptr;
  Place place_;
  std::unique_ptr<Claim> own_;  // of the tenant's own budget, beside that of the whole
  Admission* both_ = nullptr;   // the budget of the two
};

// What a budget is called in its errors.
struct BudgetWords {
  const char* memory;           // "staging memory"
  const char* limit;            // the flag: "staging-bytes-max"
  const char* full;             // reason when the bytes do not fit now
  const char* too_large;        // reason when they never will
  const char* remedy;           // what to do when they do not fit now
  uint64_t retry_after_ms = 0;  // 0: waiting alone does not help
};
inline constexpr BudgetWords kStagingBudget = {
    "staging memory", "staging-bytes-max", "STAGING_FULL", "UPDATE_TOO_LARGE", "try again",
    // Long enough for several folds of a 16 MiB message, short beside a round.
    200};
inline constexpr BudgetWords kTenantBudget = {"the tenant's memory",
                                              "tenant-bytes-max",
                                              "TENANT_BYTES_FULL",
                                              "TENANT_BYTES_FULL",
                                              "try again, or delete rounds that are done with",
                                              200};
inline constexpr BudgetWords kAggregationBudget = {
    "aggregation memory", "aggregation-bytes-max", "AGGREGATION_FULL", "AGGREGATION_FULL",
    "delete rounds that are done with, or raise the limit"};

inline constexpr BudgetWords kUploadDiskBudget = {"room for updates that arrive in chunks",
                                                  "upload-disk-bytes-max",
                                                  "UPLOADS_FULL",
                                                  "UPDATE_TOO_LARGE",
                                                  "try again",
                                                  1000};

// Thread-safe.
class Admission {
 public:
  explicit Admission(uint64_t bytes_max, const BudgetWords& words = kStagingBudget)
      : bytes_max_(bytes_max), words_(words) {}
  // What is reserved here is taken from `own`, and then from `whole`; both outlive this.
  Admission(Admission& own, Admission& whole)
      : bytes_max_(std::numeric_limits<uint64_t>::max()), parts_{&own, &whole} {}

  // RESOURCE_EXHAUSTED with the budget's reasons. `who` begins the message.
  absl::StatusOr<Reservation> Reserve(uint64_t bytes, std::string_view who = "the update");
  // For what was accepted before: counted whatever the budget, so that others find it taken.
  Reservation ReserveAnyway(uint64_t bytes);

  // A claim on up to `need` bytes. RESOURCE_EXHAUSTED with the budget's reasons.
  absl::StatusOr<Claim> Announce(uint64_t need, std::string_view who = "the update");

  uint64_t bytes_in_use() const;
  // What could be reserved now.
  uint64_t bytes_free() const;

 private:
  friend class Reservation;
  absl::Status Take(uint64_t bytes, std::string_view who);
  friend class Claim;
  void GiveBack(uint64_t bytes);
  void Exchange(uint64_t old_bytes, uint64_t new_bytes);
  void Leave(Claim::Place place);
  absl::Status CheckRoomLocked(uint64_t bytes, uint64_t taken, std::string_view who) const;
  absl::Status TakeLocked(uint64_t bytes, uint64_t kept, std::string_view who);
  uint64_t FreeLocked(uint64_t taken) const { return taken < bytes_max_ ? bytes_max_ - taken : 0; }
  // What claims need beside what the oldest has; `without` one of them.
  uint64_t KeptLocked(const Claim::State* without = nullptr) const;

  const uint64_t bytes_max_;
  const BudgetWords words_{};
  const std::array<Admission*, 2> parts_{};  // null: a budget by itself
  mutable std::mutex mutex_;
  uint64_t bytes_in_use_ = 0;
  std::list<Claim::State> claims_;   // the oldest first
  std::list<Claim::State> settled_;  // take no more
  std::multiset<uint64_t> needs_;    // theirs
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_MEMORY_ADMISSION_H_

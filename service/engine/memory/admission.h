// Admission by bytes: memory is reserved from a budget before it is allocated, so that clients
// cannot make the server run out of memory. The engine has two budgets of memory: staging, for
// updates that are not yet folded, and aggregation, for accumulators and results. It has one budget
// of disk, for updates that arrive in chunks. Each tenant has a budget of its own; a tenant's
// reservation counts in both.
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

// A number of bytes reserved from a budget. The destructor releases them. Must not outlive its
// Admission. Thread-compatible.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation();

  uint64_t bytes() const { return bytes_; }
  // Changes the reservation to the bytes that are really held, more or fewer than before. REQUIRES:
  // a reservation, not a default-constructed object.
  void SetBytes(uint64_t bytes);
  // Moves `bytes` into a reservation of their own. REQUIRES: bytes <= bytes().
  Reservation Split(uint64_t bytes);

 private:
  friend class Admission;
  friend class Claim;
  Reservation(Admission* admission, uint64_t bytes) : admission_(admission), bytes_(bytes) {}

  Admission* admission_ = nullptr;
  uint64_t bytes_ = 0;
};

// Memory that is announced as a whole and reserved in parts as it is needed. The claims in progress
// may together need more than the budget, and still each of them completes: the others leave room
// for the largest need, so the oldest claim can always continue (a safe state of the banker's
// algorithm).
//
//   free + held by the oldest >= the largest need of all claims
//
// When the oldest claim ends and releases what it held, the invariant holds for the next one.
// Reservations outside of claims leave the same room. While much is free, a claim can be settled at
// once (TakeIfPlenty(), then Settle()).
//
// The destructor releases everything that is held. Must not outlive its Admission.
// Thread-compatible.
class Claim {
 public:
  Claim() = default;
  Claim(Claim&& other) noexcept;
  Claim& operator=(Claim&& other) noexcept;
  ~Claim();

  // Reserves `bytes` for the claim. Returns RESOURCE_EXHAUSTED, with the budget's reasons and a
  // time to retry after, and keeps what is held. REQUIRES: the sum of all calls is at most the
  // announced need.
  absl::Status Take(uint64_t bytes);
  // As Take(), but returns a reservation of its own, which may outlive the claim.
  absl::StatusOr<Reservation> TakeReservation(uint64_t bytes);
  // As TakeReservation(), but beyond the announced need, and only if half of the budget stays free.
  absl::StatusOr<Reservation> TakeIfPlenty(uint64_t bytes);
  // Drops the announced bytes that are not held; the next claim then becomes the oldest. REQUIRES:
  // nothing is taken afterwards.
  void Settle();
  // Releases `bytes` of what is held. REQUIRES: the claim holds at least `bytes`.
  void Release(uint64_t bytes);

 private:
  friend class Admission;
  struct State {
    uint64_t need = 0;
    uint64_t held = 0;
    bool settled = false;
  };
  using Place = std::list<State>::iterator;
  Claim(Admission* admission, Place place) : admission_(admission), place_(place) {}

  // Reserves from both budgets or from none. If `held`, the bytes belong to the claim until it
  // ends.
  absl::Status Reserve(uint64_t bytes, bool held);
  void Unreserve(uint64_t bytes, bool held);
  absl::Status ReserveIfPlenty(uint64_t bytes);

  Admission* admission_ = nullptr;
  Place place_;
  std::unique_ptr<Claim> own_;     // the claim on the tenant's own budget, if any
  Admission* combined_ = nullptr;  // the combined budget of the two claims
};

// The words and reasons of a budget in its errors.
struct BudgetText {
  const char* memory;           // "staging memory"
  const char* limit;            // the flag: "staging-bytes-max"
  const char* full;             // reason if the bytes do not fit now
  const char* too_large;        // reason if they can never fit
  const char* remedy;           // what to do if they do not fit now
  uint64_t retry_after_ms = 0;  // 0: a retry alone does not help
};
inline constexpr BudgetText kStagingBudget = {
    "staging memory", "staging-bytes-max", "STAGING_FULL", "UPDATE_TOO_LARGE", "try again",
    // Long enough for several folds of a 16 MiB message, and short compared with a round.
    200};
inline constexpr BudgetText kTenantBudget = {
    "the tenant's memory",
    "tenant-bytes-max",
    "TENANT_BYTES_FULL",
    "TENANT_BYTES_FULL",
    "try again, or delete rounds that are no longer needed",
    200};
inline constexpr BudgetText kAggregationBudget = {
    "aggregation memory", "aggregation-bytes-max", "AGGREGATION_FULL", "AGGREGATION_FULL",
    "delete rounds that are no longer needed, or raise the limit"};

inline constexpr BudgetText kUploadDiskBudget = {"room for updates that arrive in chunks",
                                                 "upload-disk-bytes-max",
                                                 "UPLOADS_FULL",
                                                 "UPDATE_TOO_LARGE",
                                                 "try again",
                                                 1000};

// Thread-safe.
class Admission {
 public:
  explicit Admission(uint64_t bytes_max, const BudgetText& text = kStagingBudget)
      : bytes_max_(bytes_max), text_(text) {}
  // Combines two budgets: every reservation is taken from `own` and then from `whole`. Both must
  // outlive this object.
  Admission(Admission& own, Admission& whole)
      : bytes_max_(std::numeric_limits<uint64_t>::max()), parts_{&own, &whole} {}

  // Reserves `bytes`. Returns RESOURCE_EXHAUSTED with the budget's reasons; `who` begins the
  // message.
  absl::StatusOr<Reservation> Reserve(uint64_t bytes, std::string_view who = "the update");
  // Records memory for what was accepted before, even beyond the budget, so that new work sees it
  // as taken.
  Reservation RecordReservation(uint64_t bytes);

  // Returns a claim on up to `need` bytes, or RESOURCE_EXHAUSTED with the budget's reasons.
  absl::StatusOr<Claim> Announce(uint64_t need, std::string_view who = "the update");

  uint64_t bytes_in_use() const;
  // Returns how many bytes could be reserved now.
  uint64_t bytes_free() const;

 private:
  friend class Reservation;
  absl::Status Take(uint64_t bytes, std::string_view who);
  friend class Claim;
  void Release(uint64_t bytes);
  void Resize(uint64_t old_bytes, uint64_t new_bytes);
  void RemoveClaim(Claim::Place place);
  absl::Status CheckRoomLocked(uint64_t bytes, uint64_t taken, std::string_view who) const;
  absl::Status TakeLocked(uint64_t bytes, uint64_t headroom, std::string_view who);
  uint64_t FreeLocked(uint64_t taken) const { return taken < bytes_max_ ? bytes_max_ - taken : 0; }
  // Returns the bytes that must stay free so that the oldest claim can complete. Ignores the claim
  // `without`.
  uint64_t HeadroomLocked(const Claim::State* without = nullptr) const;

  const uint64_t bytes_max_;
  const BudgetText text_{};
  const std::array<Admission*, 2> parts_{};  // null: a single budget
  mutable std::mutex mutex_;
  uint64_t bytes_in_use_ = 0;
  std::list<Claim::State> claims_;   // the oldest first
  std::list<Claim::State> settled_;  // settled claims, which take no more
  std::multiset<uint64_t> needs_;    // the needs of claims_
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_MEMORY_ADMISSION_H_

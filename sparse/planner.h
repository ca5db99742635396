// Chooses an algorithm, called a plan, for a workload. The choice is a pure function: the same
// arguments give the same plan. A plan affects speed and memory, never a bit of a result.
#ifndef SPARSEAGG_SPARSE_PLANNER_H_
#define SPARSEAGG_SPARSE_PLANNER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "sparse/types.h"

namespace sparseagg {

// What is known about the updates to come; 0 means unknown.
struct Workload {
  uint64_t contributors = 0;
  uint64_t nnz_per_update = 0;
  EntryOrder order = EntryOrder::kUnknown;  // that of the least ordered update
  // True: all updates are in memory before the result is requested; they are kept as they are and
  // reduced once. False: they are reduced in batches while others arrive.
  bool at_once = false;
};

struct BackendInfo;

// The cost of a plan, as predicted by the cost model of its back end.
struct PlanCost {
  double seconds = 0.0;      // from the first batch to the result
  uint64_t fixed_bytes = 0;  // memory for the whole index space, allocated when the plan begins
  uint64_t entry_bytes = 0;  // upper bound of memory for each accumulated entry, until Report()
  // Memory for the list of results, in addition to fixed_bytes. It is needed when no entries wait
  // to be reduced any more.
  uint64_t listing_bytes = 0;

  // All memory that does not depend on the number of entries. Saturates at 2^64 - 1.
  uint64_t index_space_bytes() const {
    const uint64_t sum = fixed_bytes + listing_bytes;
    return sum < fixed_bytes ? ~uint64_t{0} : sum;
  }
};

// A pure function. For an unknown workload the model assumes a typical one; MakePlan() compares
// plans by that assumption only for dense tensors.
using CostModel = std::function<PlanCost(const BackendInfo& backend, std::string_view plan,
                                         const ReduceSpec& spec, const Workload& workload)>;

struct BackendInfo {
  std::string name;         // "cpu"
  std::string description;  // "2 threads, AVX3"
  uint32_t threads = 1;
  uint64_t memory_bytes = 0;       // what the back end may use
  std::vector<std::string> plans;  // algorithms; the last one suits any workload (no fixed bytes)
  CostModel cost = nullptr;
  bool can_fail = false;                // its processor can fail while the process runs: a GPU
  std::vector<std::string> notes = {};  // for the log: findings made at initialization
  // Its devices, each with its number ("0: NVIDIA H200"); none on the host's processor. Each has
  // memory_bytes of its own.
  std::vector<std::string> devices = {};
  // A device takes updates of about this many bytes at a time; the next ones may go to another one.
  uint64_t device_batch_bytes = 0;
};

// The exponent of the slots of one tensor, chosen by the first of its devices that needs one, so
// that the states of all of them can be merged as they are. It changes no bit. Thread-safe.
class SharedWindow {
 public:
  // Returns what was chosen first.
  int32_t Choose(int32_t lsb) {
    int64_t chosen = kNone;
    return lsb_.compare_exchange_strong(chosen, lsb) ? lsb : static_cast<int32_t>(chosen);
  }

 private:
  static constexpr int64_t kNone = int64_t{1} << 40;
  std::atomic<int64_t> lsb_{kNone};
};

struct Plan {
  std::string name;
  std::string reason;  // one clause for operators: "4.1 ms expected; dense 12 ms, rows 6.3 ms"
  bool forced = false;
  ReduceSpec spec;
  Workload workload;
  PlanCost cost;
  // The plan is neither forced nor made for a known workload: the aggregator plans again, based on
  // the entries that have arrived.
  bool adaptive = false;
  // The number of devices that a known workload is spread over: as few as have a batch each, so a
  // small round stays on one. The cost is that of the largest share.
  uint32_t devices = 1;
  std::shared_ptr<SharedWindow> window = nullptr;  // of a tensor on several devices
};

// Any workload may use a plan with at most this much memory for the index space: it stays in a
// core's L2 cache.
inline constexpr uint64_t kFixedBytesExempt = uint64_t{256} << 10;

// Returns whether a plan may allocate its fixed bytes for a workload of `entries` entries.
// `general` is the cost of the back end's last plan. Above kFixedBytesExempt the condition is
//
//   fixed_bytes + max(0, listing_bytes - entry_bytes * entries) <= general.entry_bytes * entries
//
// The left side is the memory beside the waiting entries: the list of results reuses theirs and
// needs only the difference. The right side is what the general plan would use for the same
// entries. A state for the whole index space is thus begun only when there are enough entries to
// justify it (docs/decisions/0014-adaptive-plans.md), and it fits the memory that admission has
// reserved for them.
bool IsAffordable(const PlanCost& cost, const PlanCost& general, double entries);

// Returns the plan `forced` or, when that is empty:
// * for a known workload, the cheapest affordable plan that fits the back end's memory;
// * for an unknown workload of a dense tensor (one row, which every update has), the cheapest plan
//   for a typical number of updates;
// * for any other unknown workload, the back end's last plan, to be adapted as entries arrive.
//
// Returns INVALID_ARGUMENT (UNKNOWN_PLAN) when the back end has no plan `forced`, and
// RESOURCE_EXHAUSTED (PLAN_TOO_LARGE) when that plan does not fit its memory.
absl::StatusOr<Plan> MakePlan(const ReduceSpec& spec, const Workload& workload,
                              const BackendInfo& backend, std::string_view forced = {});

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_PLANNER_H_

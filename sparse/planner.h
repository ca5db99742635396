// Chooses an algorithm for a workload. Pure: the same arguments give the same plan. A plan affects
// speed and memory, never a bit of a result.
#ifndef SPARSEAGG_SPARSE_PLANNER_H_
#define SPARSEAGG_SPARSE_PLANNER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "sparse/types.h"

namespace sparseagg {

// What is known of the updates to come; 0 is "unknown".
struct Workload {
  uint64_t contributors = 0;
  uint64_t nnz_per_update = 0;
  EntryOrder order = EntryOrder::kUnknown;  // the least ordered one decides
  // All of them are in memory before the result is asked for: they are kept as they are and reduced
  // once. Otherwise they are reduced in batches while others arrive.
  bool at_once = false;
};

struct BackendInfo;

// What a plan costs, by the model of its back end.
struct PlanCost {
  double seconds = 0.0;      // from the first batch to the result
  uint64_t fixed_bytes = 0;  // memory for the whole index space, taken when the plan begins
  uint64_t entry_bytes = 0;  // at most this for each entry that it accumulates, until Report()
  // Beside the fixed bytes, to list the result: when no entries wait any more.
  uint64_t listing_bytes = 0;

  // All that does not depend on the number of entries; at most 2^64 - 1.
  uint64_t index_space_bytes() const {
    const uint64_t sum = fixed_bytes + listing_bytes;
    return sum < fixed_bytes ? ~uint64_t{0} : sum;
  }
};

// Pure. Where the workload is not known, the model assumes a usual one; MakePlan() never compares
// plans by that.
using CostModel = std::function<PlanCost(const BackendInfo& backend, std::string_view plan,
                                         const ReduceSpec& spec, const Workload& workload)>;

struct BackendInfo {
  std::string name;         // "cpu"
  std::string description;  // "2 threads, AVX3"
  uint32_t threads = 1;
  uint64_t memory_bytes = 0;  // what the back end may use
  std::vector<std::string>
      plans;  // algorithms it has; the last is for any workload: no fixed bytes
  CostModel cost = nullptr;
  bool may_be_lost = false;             // its processor can fail while the process lives: a GPU
  std::vector<std::string> notes = {};  // for the log: what was found out when it was made
};

struct Plan {
  std::string name;
  std::string reason;  // one clause for people: "4.1 ms expected; dense 12 ms, rows 6.3 ms"
  bool forced = false;
  ReduceSpec spec;
  Workload workload;
  PlanCost cost;
  // Neither forced nor made for a known workload: the aggregator plans anew, by what has come.
  bool adaptive = false;
};

// Fixed bytes that no workload has to pay for: they stay in a core's second cache.
inline constexpr uint64_t kFixedBytesFree = uint64_t{256} << 10;

// Whether a plan may take its fixed bytes for a workload of `entries`: no more than the general
// plan would take for the entries themselves, beside them as they came. The result is listed in
// what these leave, and takes from the rest what it needs more. A state for the whole index space
// is thus only begun when entries have paid for it (docs/decisions/0014-adaptive-plans.md), and
// fits in what admission has reserved for them. `general` is the cost of the back end's last plan.
bool IsAffordable(const PlanCost& cost, const PlanCost& general, double entries);

// The cheapest affordable plan that fits in the back end's memory, or `forced` when it is not
// empty. For an unknown workload: the back end's last plan, to be adapted as entries come; of a
// dense tensor (one row, which every update has) the cheapest for a usual number of updates.
// INVALID_ARGUMENT (UNKNOWN_PLAN) when that is not a plan of the back end; RESOURCE_EXHAUSTED
// (PLAN_TOO_LARGE) when it does not fit.
absl::StatusOr<Plan> MakePlan(const ReduceSpec& spec, const Workload& workload,
                              const BackendInfo& backend, std::string_view forced = {});

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_PLANNER_H_

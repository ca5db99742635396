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
  uint64_t fixed_bytes = 0;  // memory that the aggregator takes at once
  uint64_t entry_bytes = 0;  // at most this for each entry that it accumulates, until Report()
};

// Pure. Where the workload is not known, the model assumes one.
using CostModel = std::function<PlanCost(const BackendInfo& backend, std::string_view plan,
                                         const ReduceSpec& spec, const Workload& workload)>;

struct BackendInfo {
  std::string name;         // "cpu"
  std::string description;  // "2 threads, AVX3"
  uint32_t threads = 1;
  uint64_t memory_bytes = 0;       // what the back end may use
  std::vector<std::string> plans;  // algorithms it has, one for any workload last
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
  bool workload_known = false;  // otherwise cost.seconds is that of an assumed one
};

// The cheapest plan that fits in the back end's memory, or `forced` when it is not empty.
// INVALID_ARGUMENT (UNKNOWN_PLAN) when that is not a plan of the back end; RESOURCE_EXHAUSTED
// (PLAN_TOO_LARGE) when it does not fit.
absl::StatusOr<Plan> MakePlan(const ReduceSpec& spec, const Workload& workload,
                              const BackendInfo& backend, std::string_view forced = {});

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_PLANNER_H_

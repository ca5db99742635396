// Chooses an algorithm for a workload. Pure: the same arguments give the same plan. A plan affects
// speed and memory, never a bit of a result.
#ifndef SPARSEAGG_SPARSE_PLANNER_H_
#define SPARSEAGG_SPARSE_PLANNER_H_

#include <cstdint>
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

struct BackendInfo {
  std::string name;         // "cpu"
  std::string description;  // "2 threads, oneTBB 2021.8"
  uint32_t threads = 1;
  uint64_t memory_bytes = 0;       // what the back end may use
  uint32_t slot_bytes = 16;        // memory of one exact slot (sparse/partial.h)
  std::vector<std::string> plans;  // algorithms it has, the general one (any workload) last
};

struct Plan {
  std::string name;
  std::string reason;  // one clause for people: "4096 rows x 1 slots fit in 1 MiB"
  ReduceSpec spec;
  Workload workload;
  uint64_t fixed_bytes = 0;  // memory that the aggregator takes at once
  uint64_t entry_bytes = 0;  // at most this for each entry that it accumulates, until Report()
};

// INVALID_ARGUMENT (UNKNOWN_PLAN) when `forced` is not a plan of the back end; RESOURCE_EXHAUSTED
// when a forced plan cannot hold the workload. `forced` empty: the planner chooses.
absl::StatusOr<Plan> MakePlan(const ReduceSpec& spec, const Workload& workload,
                              const BackendInfo& backend, std::string_view forced = {});

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_PLANNER_H_

// The steps that the programs in this folder read (grid.py writes them), and how their cases are
// named in results.
#ifndef SPARSEAGG_BENCH_GPU_CASE_LIST_H_
#define SPARSEAGG_BENCH_GPU_CASE_LIST_H_

#include <string>
#include <vector>

#include "bench/gpu/batch_case.h"
#include "sparse/planner.h"
#include "sparse/types.h"

namespace sparseagg::gpu {

// One measurement: a case, and the plan or peer that reduces it.
struct Step {
  BatchCase batch_case;
  std::string plan;
};

// Ends the program when `path` cannot be read.
std::vector<Step> ReadSteps(const char* path);

// Members of a JSON object.
std::string Members(const BatchCase& batch_case);

// Returns what the planner is told of a case.
ReduceSpec SpecOf(const BatchCase& batch_case);
Workload WorkloadOf(const BatchCase& batch_case);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_BENCH_GPU_CASE_LIST_H_

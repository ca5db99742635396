// A back end of this build as a contender.
#ifndef SPARSEAGG_BENCH_REDUCE_OWN_H_
#define SPARSEAGG_BENCH_REDUCE_OWN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/reduce/case_file.h"
#include "bench/report_file.h"
#include "sparse/backend.h"

namespace sparseagg::bench {

struct OwnContender {
  const BackendFactory* factory;
  std::string plan;  // forced; empty lets the planner choose
  uint32_t threads;
  // "batch": all updates are there before the first is accumulated; "packed": the same, as they
  // come out of coo.packed; "stream": each is accumulated when it is there.
  std::string form;
};

// What one run gave: {"seconds", "stage_seconds", "peak_bytes", "nnz", "digest", "plan", "reason",
// "predicted_seconds", "plan_seconds"}, or {"skipped": why}. Timed is what the aggregator does,
// from the first Accumulate() to the complete result of Report(). Staging - copying from the file
// into the back end's memory, and ValidateUpdate() - is the caller's; its time stands apart.
// The median of RunsOf(repetitions), with their peak.
Row MeasureOwn(const OwnContender& contender, const CaseView& updates, int repetitions);

// The plans that a back end has. Starts its threads: call it in a child.
std::vector<std::string> PlansOf(const BackendFactory& factory);

}  // namespace sparseagg::bench

#endif  // SPARSEAGG_BENCH_REDUCE_OWN_H_

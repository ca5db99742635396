#include "bench/gpu/case_list.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace sparseagg::gpu {

std::vector<Step> ReadSteps(const char* path) {
  std::ifstream file(path);
  std::vector<Step> steps;
  Step step;
  BatchCase& c = step.batch_case;
  while (file >> c.entries >> c.rows >> c.contributors >> c.indices >> c.sorted >> c.width >>
         step.plan) {
    if (c.contributors == 0 || c.entries < c.contributors || c.rows == 0 || c.width == 0) break;
    steps.push_back(step);
  }
  if (steps.empty() || !file.eof()) {
    std::fprintf(stderr, "%s: not a list of steps, from line %zu on\n", path, steps.size() + 1);
    std::exit(2);
  }
  return steps;
}

std::string Members(const BatchCase& c) {
  return absl::StrCat("\"entries\":", c.entries, ",\"rows\":", c.rows,
                      ",\"contributors\":", c.contributors, ",\"indices\":\"", c.indices,
                      "\",\"sorted\":", c.sorted ? "true" : "false", ",\"width\":", c.width);
}

ReduceSpec SpecOf(const BatchCase& c) {
  return {.name = "t", .layout = {c.rows, c.width, ValueType::kF32}, .op = "sum"};
}

Workload WorkloadOf(const BatchCase& c) {
  return {.contributors = c.contributors,
          .nnz_per_update = c.nnz_per_update(),
          .order = c.sorted ? EntryOrder::kCanonical : EntryOrder::kUnsorted,
          .at_once = true};
}

}  // namespace sparseagg::gpu

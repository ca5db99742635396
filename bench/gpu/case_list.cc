#include "bench/gpu/case_list.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace sparseagg::gpu {

std::vector<BatchCase> ReadCases(const char* path) {
  std::ifstream file(path);
  std::vector<BatchCase> cases;
  BatchCase c;
  while (file >> c.entries >> c.rows >> c.contributors >> c.indices >> c.sorted >> c.width >>
         c.end_to_end) {
    if (c.contributors == 0 || c.entries < c.contributors || c.rows == 0 || c.width == 0) break;
    cases.push_back(c);
  }
  if (cases.empty() || !file.eof()) {
    std::fprintf(stderr, "%s: not a list of cases, from line %zu on\n", path, cases.size() + 1);
    std::exit(2);
  }
  return cases;
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

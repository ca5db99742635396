// What the cost model says of one H200 for the cases of a list of steps: predictions, to be held
// against measurements (gpu_check does). Nothing is measured here, and no GPU is needed.
//
//   gpu_predict STEPS OUTPUT.json
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "bench/gpu/case_list.h"
#include "cuda/cost_model.h"
#include "cuda/device/calibration.h"
#include "cuda/plan.h"
#include "sparse/planner.h"

namespace sparseagg::gpu {
namespace {

constexpr uint64_t kMemoryBytes = uint64_t{100} << 30;  // of an H200's, for slots

// Three digits: a model has no more.
std::string Milliseconds(double seconds) { return absl::StrFormat("%.3g", seconds * 1e3); }

BackendInfo H200() {
  BackendInfo info{.name = "cuda", .memory_bytes = kMemoryBytes};
  for (const DevicePlan& row : DevicePlans()) info.plans.emplace_back(row.name);
  info.cost = [](const BackendInfo&, std::string_view plan, const ReduceSpec& spec,
                 const Workload& workload) { return CudaCost({}, plan, spec, workload); };
  return info;
}

std::string Predict(const BatchCase& c, const BackendInfo& info) {
  const ReduceSpec spec = SpecOf(c);
  const Workload workload = WorkloadOf(c);
  std::vector<std::string> plans;
  for (const std::string& plan : info.plans) {
    if (info.cost(info, plan, spec, workload).index_space_bytes() > kMemoryBytes) continue;
    plans.push_back(
        absl::StrCat("\"", plan, "\":", Milliseconds(ReduceSeconds({}, plan, spec, workload))));
  }
  if (c.width > 1) {
    plans.push_back(absl::StrCat("\"row_reduce_rounded\":",
                                 Milliseconds(RoundRowsSeconds({}, spec, workload))));
  }
  const auto chosen = MakePlan(spec, workload, info);
  return absl::StrCat("{", Members(c), ",\"plans\":{", absl::StrJoin(plans, ","), "},\"chosen\":\"",
                      chosen->name, "\",\"end_to_end\":", Milliseconds(chosen->cost.seconds), "}");
}

int Main(const char* steps_path, const char* path) {
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return 2;
  const BackendInfo info = H200();
  std::vector<std::string> lines;
  for (const Step& step : ReadSteps(steps_path)) lines.push_back(Predict(step.batch_case, info));
  std::fprintf(file,
               "{\"what\":\"MODEL, not measured: milliseconds of one H200; plans: on the device; "
               "end_to_end: of the chosen plan, transfers included\",\n"
               "\"rates\":\"%s\",\n\"cases\":[\n%s\n]}\n",
               Describe({}).c_str(), absl::StrJoin(lines, ",\n").c_str());
  return std::fclose(file) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace sparseagg::gpu

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: gpu_predict STEPS OUTPUT.json\n");
    return 2;
  }
  return sparseagg::gpu::Main(argv[1], argv[2]);
}

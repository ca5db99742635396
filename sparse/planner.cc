#include "sparse/planner.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace sparseagg {
namespace {

// Two significant digits below 100, all digits before the point from there on.
std::string FormatNumber(double number) {
  return number < 99.5 ? absl::StrFormat("%.2g", number) : absl::StrFormat("%.0f", number);
}

std::string FormatSeconds(double seconds) {
  if (seconds < 1e-3) return FormatNumber(seconds * 1e6) + " us";
  return seconds < 1 ? FormatNumber(seconds * 1e3) + " ms" : FormatNumber(seconds) + " s";
}

struct Candidate {
  std::string_view name;
  PlanCost cost;
  bool fits;
};

bool IsKnown(const Workload& workload) {
  return workload.contributors > 0 && workload.nnz_per_update > 0;
}

uint32_t DevicesFor(const ReduceSpec& spec, const Workload& workload, const BackendInfo& backend) {
  const auto devices = static_cast<uint32_t>(std::max<size_t>(1, backend.devices.size()));
  if (devices == 1 || backend.device_batch_bytes == 0 || !IsKnown(workload)) return 1;
  const auto entry_bytes = static_cast<double>(sizeof(uint64_t) + spec.layout.row_bytes());
  const double bytes = static_cast<double>(workload.contributors) *
                       static_cast<double>(workload.nnz_per_update) * entry_bytes;
  const double batches = bytes / static_cast<double>(backend.device_batch_bytes);
  if (batches >= devices) return devices;
  return std::max<uint32_t>(1, static_cast<uint32_t>(batches));
}

// Returns the reason of a choice: "4.1 ms expected; rows 6.3 ms, dense needs 800 MiB".
std::string ReasonOfChoice(const std::vector<Candidate>& candidates, const Candidate& chosen,
                           bool workload_known) {
  std::vector<std::string> others;
  for (const Candidate& other : candidates) {
    if (other.name == chosen.name) continue;
    const std::string name(other.name);
    others.push_back(
        other.fits ? absl::StrCat(name, " ", FormatSeconds(other.cost.seconds))
                   : absl::StrCat(name, " needs ", other.cost.index_space_bytes() >> 20, " MiB"));
  }
  return absl::StrCat(FormatSeconds(chosen.cost.seconds),
                      workload_known ? " expected" : " for a typical round",
                      others.empty() ? "" : "; ", absl::StrJoin(others, ", "));
}

}  // namespace

bool IsAffordable(const PlanCost& cost, const PlanCost& general, double entries) {
  if (cost.index_space_bytes() <= kFixedBytesExempt) return true;
  const double waiting = static_cast<double>(cost.entry_bytes) * entries;
  const double listing = std::max(0.0, static_cast<double>(cost.listing_bytes) - waiting);
  return static_cast<double>(cost.fixed_bytes) + listing <=
         static_cast<double>(general.entry_bytes) * entries;
}

absl::StatusOr<Plan> MakePlan(const ReduceSpec& spec, const Workload& workload,
                              const BackendInfo& backend, std::string_view forced) {
  Plan plan{.spec = spec, .workload = workload};
  plan.devices = DevicesFor(spec, workload, backend);
  Workload share = workload;  // of one device
  share.contributors = (workload.contributors + plan.devices - 1) / plan.devices;
  std::vector<Candidate> candidates;
  for (const std::string& name : backend.plans) {
    const PlanCost cost = backend.cost(backend, name, spec, share);
    candidates.push_back({name, cost, cost.index_space_bytes() <= backend.memory_bytes});
  }
  if (!forced.empty()) {
    const auto found = std::find_if(candidates.begin(), candidates.end(),
                                    [&](const Candidate& c) { return c.name == forced; });
    if (found == candidates.end()) {
      return MakeError(
          absl::StatusCode::kInvalidArgument, "UNKNOWN_PLAN",
          absl::StrCat("tensor \"", spec.name, "\": the back end ", backend.name, " has no plan \"",
                       std::string(forced), "\"; it has ", absl::StrJoin(backend.plans, ", ")));
    }
    if (!found->fits) {
      return MakeError(
          absl::StatusCode::kResourceExhausted, "PLAN_TOO_LARGE",
          absl::StrCat("tensor \"", spec.name, "\": the plan ", std::string(forced), " needs ",
                       found->cost.index_space_bytes() >> 20, " MiB, the back end may use ",
                       backend.memory_bytes >> 20, " MiB"));
    }
    plan.name = std::string(forced);
    plan.reason = "requested";
    plan.forced = true;
    plan.cost = found->cost;
    return plan;
  }
  // The updates of a dense tensor are known: each has its one row.
  const bool known = IsKnown(workload);
  if (!known && spec.layout.num_rows > 1) {
    plan.name = candidates.back().name;
    plan.reason = "the updates are unknown before they arrive";
    plan.cost = candidates.back().cost;
    plan.cost.seconds = 0;
    plan.adaptive = true;
    return plan;
  }
  if (known) {
    const double entries =
        static_cast<double>(share.contributors) * static_cast<double>(share.nnz_per_update);
    for (Candidate& candidate : candidates) {
      candidate.fits &= IsAffordable(candidate.cost, candidates.back().cost, entries);
    }
  }
  const auto cheapest = std::min_element(candidates.begin(), candidates.end(),
                                         [](const Candidate& a, const Candidate& b) {
                                           if (a.fits != b.fits) return a.fits;
                                           return a.cost.seconds < b.cost.seconds;
                                         });
  plan.name = std::string(cheapest->name);
  plan.reason = ReasonOfChoice(candidates, *cheapest, known);
  if (known && backend.devices.size() > 1) {
    absl::StrAppend(&plan.reason, "; on ", plan.devices, " of ", backend.devices.size(),
                    " devices");
  }
  plan.cost = cheapest->cost;
  return plan;
}

}  // namespace sparseagg

#include "sparse/planner.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sparse/float_format.h"
#include "sparse/partial.h"
#include "sparse/status.h"

namespace sparseagg {
namespace {

constexpr std::string_view kDense = "dense";

// A dense accumulator this small is always worth it: it stays in or near the cache of today's
// processors.
constexpr uint64_t kDenseBytesAlways = uint64_t{16} << 20;
// Above that, it is worth it when the updates are expected to touch this part of it.
constexpr double kDenseOccupancyMin = 1.0 / 16;

struct DenseSize {
  unsigned __int128 bytes;
  std::string text;
};

DenseSize SizeOfDense(const ReduceSpec& spec) {
  const uint32_t slots = SlotsPerRow(spec);
  const unsigned __int128 bytes = static_cast<unsigned __int128>(spec.layout.num_rows) *
                                  (slots * uint64_t{sizeof(Int128)} + sizeof(uint64_t));
  const auto mib = bytes >> 20;
  return {bytes,
          absl::StrCat(spec.layout.num_rows, " rows of ", slots, " slots take ",
                       mib >= uint64_t{1} << 44 ? uint64_t{1} << 44 : static_cast<uint64_t>(mib),
                       " MiB")};
}

// Why the dense accumulator suits the workload; empty when it does not.
std::string WhyDense(const ReduceSpec& spec, const Workload& workload, const BackendInfo& backend) {
  const DenseSize size = SizeOfDense(spec);
  if (size.bytes > backend.memory_bytes) return "";
  if (spec.layout.num_rows == 1) return absl::StrCat("a dense tensor; ", size.text);
  if (size.bytes <= kDenseBytesAlways) return size.text;
  const double entries =
      static_cast<double>(workload.contributors) * static_cast<double>(workload.nnz_per_update);
  if (entries >= kDenseOccupancyMin * static_cast<double>(spec.layout.num_rows)) {
    return absl::StrCat(size.text, ", and about ", static_cast<uint64_t>(entries),
                        " entries are expected");
  }
  return "";
}

// The memory that the chosen plan takes. An entry waits as it came, and may become a row of slots
// of its own.
void AddMemory(const BackendInfo& backend, Plan& plan) {
  const uint64_t waiting = sizeof(uint64_t) + plan.spec.layout.row_bytes();
  if (plan.name == kDense) {
    plan.fixed_bytes = static_cast<uint64_t>(SizeOfDense(plan.spec).bytes);
    plan.entry_bytes = waiting;
  } else {
    plan.entry_bytes =
        waiting + sizeof(uint64_t) + uint64_t{SlotsPerRow(plan.spec)} * backend.slot_bytes;
  }
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const ReduceSpec& spec, const Workload& workload,
                              const BackendInfo& backend, std::string_view forced) {
  const auto has = [&](std::string_view name) {
    return std::find(backend.plans.begin(), backend.plans.end(), name) != backend.plans.end();
  };
  Plan plan{.name = backend.plans.back(), .reason = "", .spec = spec, .workload = workload};
  if (!forced.empty()) {
    if (!has(forced)) {
      return MakeError(
          absl::StatusCode::kInvalidArgument, "UNKNOWN_PLAN",
          absl::StrCat("tensor \"", spec.name, "\": the back end ", backend.name, " has no plan \"",
                       std::string(forced), "\"; it has ", absl::StrJoin(backend.plans, ", ")));
    }
    const DenseSize size = SizeOfDense(spec);
    if (forced == kDense && size.bytes > backend.memory_bytes) {
      return MakeError(
          absl::StatusCode::kResourceExhausted, "PLAN_TOO_LARGE",
          absl::StrCat("tensor \"", spec.name, "\": the plan dense does not fit: ", size.text,
                       ", the back end may use ", backend.memory_bytes >> 20, " MiB"));
    }
    plan.name = std::string(forced);
    plan.reason = "asked for";
    AddMemory(backend, plan);
    return plan;
  }
  const std::string why_dense = has(kDense) ? WhyDense(spec, workload, backend) : "";
  if (!why_dense.empty()) {
    plan.name = std::string(kDense);
    plan.reason = why_dense;
  } else if (has(kDense)) {
    plan.reason = absl::StrCat("a dense accumulator does not pay: ", SizeOfDense(spec).text);
  } else {
    plan.reason = "the only plan";
  }
  AddMemory(backend, plan);
  return plan;
}

}  // namespace sparseagg

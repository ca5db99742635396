// A back end: the implementation of the aggregation on one kind of processor. The flow of one
// tensor of one round:
//
//   NewAggregator(plan) -> { Stage(nnz) -> decode into it -> ValidateUpdate -> Accumulate } * ->
//   Report
//
// All back ends give the same bits (docs/numerics.md); sparse/reference_backend.h is the
// definition.
#ifndef SPARSEAGG_SPARSE_BACKEND_H_
#define SPARSEAGG_SPARSE_BACKEND_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sparse/narrow_rows.h"
#include "sparse/partial.h"
#include "sparse/planner.h"
#include "sparse/types.h"

namespace sparseagg {

// Memory of the back end for the entries of one update, to be decoded into. Move-only by its owner
// pointer.
struct StagedUpdate {
  MutableCooView entries;
  EntryOrder order = EntryOrder::kUnknown;  // as ValidateUpdate() found it
  std::unique_ptr<void, void (*)(void*)> memory{nullptr, [](void*) {}};
  uint64_t bytes = 0;                       // size of `memory`
  std::unique_ptr<NarrowRows> narrow_rows;  // of `entries`, beside `memory`
};

// The forms, other than `indices`, that an update's decoder could leave its rows in.
struct RowForms {
  uint64_t packed_bytes = 0;  // > 0: as coo.packed, with as many bytes
  bool narrow = false;        // as NarrowRows, unless they turn out to be in no order
};

// Stages in ordinary host memory: for back ends that read it where it is.
absl::StatusOr<StagedUpdate> StageOnHeap(const TensorLayout& layout, uint64_t nnz);

struct Aggregate {
  SparseTensor tensor;           // layout ResultLayout(spec), canonical
  uint64_t infinite_values = 0;  // values whose exact result is beyond the range of the value type
  // Entries of the updates in it, duplicates included, counted where they were added and not where
  // they were accepted: the caller compares the two.
  uint64_t addends = 0;
};

// How a tensor has been reduced so far. Predicted and measured times stand side by side, so that a
// wrong choice of the planner can be seen.
struct PlanReport {
  std::string plan;              // the last one used; before any, the one that is meant
  std::string reason;            // as in Plan
  double predicted_seconds = 0;  // for the reductions done so far; 0: no prediction
  double seconds = 0;            // that they took
};

// One tensor of one round on one back end. Stage() and StageArriving() are thread-safe, also beside
// the rest and after Report(); the rest is for one thread at a time.
class Aggregator {
 public:
  virtual ~Aggregator() = default;

  // Reserves memory for `nnz` entries. RESOURCE_EXHAUSTED when there is none.
  virtual absl::StatusOr<StagedUpdate> Stage(uint64_t nnz) const = 0;

  // The same for an update that arrives piece by piece, and may take its time: not in memory that
  // is given back together with that of others. A back end that can add rows in one of `forms` may
  // ask for it: entries.packed_rows or entries.narrow_rows, and no indices.
  virtual absl::StatusOr<StagedUpdate> StageArriving(uint64_t nnz, RowForms /*forms*/) const {
    return Stage(nnz);
  }

  // Folds one contributor's update in. Duplicate rows are summed and count as one contributor. May
  // defer the work. REQUIRES: ValidateUpdate() accepted the entries with this weight. On an error
  // nothing is counted.
  virtual absl::Status Accumulate(StagedUpdate update, float weight) = 0;

  // Joins a partial aggregate of the same spec. FAILED_PRECONDITION when the specs differ.
  virtual absl::Status Merge(const Partial& partial) = 0;

  // The state so far, exact. Does not change the result.
  virtual absl::StatusOr<Partial> Snapshot() = 0;

  // Bytes that this aggregator holds now: its state and the entries that wait.
  virtual uint64_t memory_bytes() const = 0;

  // Also after Report().
  virtual PlanReport plan_report() const = 0;

  // The result: every sum rounded once. OUT_OF_RANGE (INTEGER_OVERFLOW) names the index of a
  // checked integer that does not fit. Ends the aggregator.
  virtual absl::StatusOr<Aggregate> Report() && = 0;
};

// A processor with memory of its own, as a GPU is. Counters are since the back end was made.
struct DeviceStats {
  uint64_t memory_bytes = 0;  // in use
  uint64_t memory_bytes_max = 0;
  uint64_t locked_bytes = 0;  // of the host's memory, page-locked for transfers
  uint64_t uploaded_bytes = 0;
  uint64_t downloaded_bytes = 0;
  uint64_t waiting_tasks = 0;  // reductions and results that the device has not begun
  double busy_seconds = 0;     // in which it had one
};

// Thread-safe.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const BackendInfo& info() const = 0;
  // OK, or why the processor that this back end was made for is not used any more.
  virtual absl::Status health() const { return absl::OkStatus(); }
  // Nothing for a back end on the host's processor.
  virtual std::optional<DeviceStats> device_stats() const { return std::nullopt; }
  virtual absl::StatusOr<std::unique_ptr<Aggregator>> NewAggregator(const Plan& plan) = 0;
};

struct BackendOptions {
  uint32_t threads = 0;       // 0: all of the machine
  uint64_t memory_bytes = 0;  // 0: the back end decides
};

// A row of the list of back ends that this build has. `make` fails with UNAVAILABLE and says why
// (no GPU, no driver).
struct BackendFactory {
  std::string_view name;
  absl::StatusOr<std::unique_ptr<Backend>> (*make)(const BackendOptions& options);
};

// The back ends of this build, the preferred first. Generated by CMake from the folders that were
// built.
std::span<const BackendFactory> AllBackends();

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_BACKEND_H_

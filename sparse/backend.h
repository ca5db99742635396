// A back end implements the aggregation on one kind of processor. One tensor of one round takes
// these steps:
//
//   NewAggregator(plan)
//     -> for each update: Stage(nnz) -> decode into it -> ValidateUpdate -> Accumulate
//     -> Report
//
// All back ends produce the same bits (docs/numerics.md); sparse/reference_backend.h defines them.
#ifndef SPARSEAGG_SPARSE_BACKEND_H_
#define SPARSEAGG_SPARSE_BACKEND_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sparse/partial.h"
#include "sparse/planner.h"
#include "sparse/rows/narrow_rows.h"
#include "sparse/types.h"

namespace sparseagg {

// Back-end memory that holds the entries of one update; an encoding decodes into it. Move-only,
// since it owns `memory`.
struct StagedUpdate {
  MutableCooView entries;
  EntryOrder order = EntryOrder::kUnknown;  // as found by ValidateUpdate()
  std::unique_ptr<void, void (*)(void*)> memory{nullptr, [](void*) {}};
  uint64_t bytes = 0;                       // size of `memory`
  std::unique_ptr<NarrowRows> narrow_rows;  // owns narrow rows; not part of `memory`
};

// Stages in ordinary host memory, for back ends that read entries in place. Returns
// RESOURCE_EXHAUSTED (OUT_OF_MEMORY) when there is none.
absl::StatusOr<StagedUpdate> StageOnHeap(const TensorLayout& layout, uint64_t nnz);

// The result of one tensor.
struct Aggregate {
  SparseTensor tensor;           // layout ResultLayout(spec), canonical
  uint64_t infinite_values = 0;  // values whose exact result is beyond the range of the value type
  // Number of entries in the result, duplicates included. It is counted where entries are added,
  // not where updates are accepted, so that the caller can compare the two counts.
  uint64_t addends = 0;
};

// How a tensor has been reduced so far. Predicted and measured times are given together, so that a
// poor choice of the planner is visible.
struct PlanReport {
  std::string plan;              // the last one used; before the first reduction, the chosen one
  std::string reason;            // as in Plan
  double predicted_seconds = 0;  // for the reductions done so far; 0: no prediction
  double seconds = 0;            // measured for the same reductions
};

// Aggregates one tensor of one round on one back end. Stage() and StageIncremental() are
// thread-safe: they may run concurrently with any other member function, and after Report(). All
// others are for one thread at a time.
class Aggregator {
 public:
  virtual ~Aggregator() = default;

  // Reserves memory for `nnz` entries. Returns RESOURCE_EXHAUSTED when there is none.
  virtual absl::StatusOr<StagedUpdate> Stage(uint64_t nnz) const = 0;

  // The same for an update that arrives in pieces and may take long. Its memory is not released
  // together with that of other updates, so a slow sender does not keep theirs in use. A back end
  // that can add rows in one of `forms` may request that form through entries.rows.
  virtual absl::StatusOr<StagedUpdate> StageIncremental(uint64_t nnz,
                                                        CompactRowForms /*forms*/) const {
    return Stage(nnz);
  }

  // Folds in one contributor's update. Duplicate rows are summed and count as one contributor. May
  // defer the work. Returns RESOURCE_EXHAUSTED (TOO_MANY_ENTRIES) beyond kAddendsMax entries; on an
  // error, nothing of the update is counted. REQUIRES: ValidateUpdate() accepted the entries with
  // this weight.
  virtual absl::Status Accumulate(StagedUpdate update, float weight) = 0;

  // Merges a partial aggregate of the same spec. Returns the errors of CheckMergeable().
  virtual absl::Status Merge(const Partial& partial) = 0;

  // Merges the state of `other`, an aggregator of the same spec that nothing may be added to any
  // more; it may be destroyed afterwards. On an error both are as they were, unless the processor
  // of one is lost: Snapshot() and Merge() then find out whose. Back ends override it where states
  // can meet without a detour through the host's memory.
  virtual absl::Status Absorb(Aggregator& other);

  // Starts the reduction of what Accumulate() has deferred; does not wait for its end. A hint.
  virtual absl::Status Flush() { return absl::OkStatus(); }

  // Returns the exact state so far. Does not change the result.
  virtual absl::StatusOr<Partial> Snapshot() = 0;

  // Bytes that this aggregator holds now: its state, and the entries that are not reduced yet.
  virtual uint64_t memory_bytes() const = 0;

  // May also be called after Report().
  virtual PlanReport plan_report() const = 0;

  // Returns the result, with every sum rounded once. Returns OUT_OF_RANGE (INTEGER_OVERFLOW),
  // naming the index, when a checked integer does not fit its type. Nothing can be accumulated or
  // merged afterwards.
  virtual absl::StatusOr<Aggregate> Report() && = 0;
};

// The use of a processor with memory of its own, such as a GPU. Counters start when the back end is
// made.
struct DeviceStats {
  std::string device;         // its number on this machine
  bool lost = false;          // it has failed and is not used any more
  uint64_t memory_bytes = 0;  // of the device, in use
  uint64_t memory_bytes_max = 0;
  // Of the host, page-locked for transfers. Devices that share such memory count it once, at the
  // first of them.
  uint64_t locked_bytes = 0;
  uint64_t uploaded_bytes = 0;
  uint64_t downloaded_bytes = 0;
  uint64_t queued_bytes = 0;   // of updates that are not reduced yet
  uint64_t waiting_tasks = 0;  // reductions and results that the device has not begun
  double busy_seconds = 0;     // time during which it had a reduction or a result to make
};

// Makes aggregators. Thread-safe.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const BackendInfo& info() const = 0;
  // Returns OK, or the reason why the back end no longer uses the processor that it was made for.
  virtual absl::Status health() const { return absl::OkStatus(); }
  // One for each device; none for a back end on the host's processor.
  virtual std::vector<DeviceStats> device_stats() const { return {}; }
  virtual absl::StatusOr<std::unique_ptr<Aggregator>> NewAggregator(const Plan& plan) = 0;
};

// Which devices of the machine a back end uses, by their numbers.
struct DeviceSelection {
  bool all = false;
  std::vector<uint32_t> numbers = {0};  // unless `all`
};

struct BackendOptions {
  uint32_t threads = 0;       // 0: all of the machine
  uint64_t memory_bytes = 0;  // of each device; 0: the back end decides
  DeviceSelection devices;
};

// One back end of this build. `make` returns UNAVAILABLE, with the reason, when the back end cannot
// run on this machine (no GPU, no driver).
struct BackendFactory {
  std::string_view name;
  absl::StatusOr<std::unique_ptr<Backend>> (*make)(const BackendOptions& options);
  // The same for each of options.devices, for MakeDeviceGroup() (sparse/device_group.h). Null for a
  // back end on the host's processor. INVALID_ARGUMENT (UNKNOWN_DEVICE) for one that is not there.
  absl::StatusOr<std::vector<std::unique_ptr<Backend>>> (*make_each)(
      const BackendOptions& options) = nullptr;
};

// Returns the back ends of this build, the preferred one first. CMake generates the list from the
// folders that were built.
std::span<const BackendFactory> AllBackends();

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_BACKEND_H_

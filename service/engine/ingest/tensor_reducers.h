// The aggregators of one specification, one for each tensor: what a round and a stateless reduction
// have in common.
//
//   Stage (any thread, no change) -> Accumulate (one thread at a time) -> Report
#ifndef SPARSEAGG_SERVICE_ENGINE_INGEST_TENSOR_REDUCERS_H_
#define SPARSEAGG_SERVICE_ENGINE_INGEST_TENSOR_REDUCERS_H_

#include <memory>
#include <span>
#include <vector>

#include "service/engine/engine.h"
#include "service/engine/ingest/update.h"
#include "service/engine/memory/admission.h"

namespace sparseagg {

// One update, decoded and found valid, in memory of the back end; in the order of the
// specification.
using StagedTensors = std::vector<StagedUpdate>;

class TensorReducers {
 public:
  // Whether the budget is asked for what a round takes from the start, or only told: of rounds that
  // were accepted before.
  enum class Budget { kAsked, kTold };

  // Plans every tensor. Errors are those of MakeReduceSpec(), MakePlan(), of `aggregation`, which
  // the memory comes from, and of Backend::NewAggregator().
  // A result of more than `result_nnz_max` entries in a tensor is an error (INVALID_ARGUMENT,
  // RESULT_NNZ_EXCEEDED): of Stage(), when the update alone makes it so, else of Report().
  static absl::StatusOr<std::unique_ptr<TensorReducers>> Make(const RoundSpec& spec,
                                                              Backend& backend,
                                                              Admission& aggregation,
                                                              uint64_t result_nnz_max,
                                                              Budget budget = Budget::kAsked);

  const RoundSpec& spec() const { return spec_; }
  const std::string& backend() const { return backend_; }
  // Names, back end and plans; the counters are 0. Before the first Accumulate().
  std::vector<TensorStatus> Describe() const;
  // How each tensor has been reduced so far. For the thread of Accumulate() and Report(), also
  // after the latter.
  std::vector<PlanReport> PlanReports() const;

  // One tensor at a time, in the order of the specification: memory for its entries, how they are
  // checked, and what must hold of them afterwards.
  absl::StatusOr<StagedUpdate> StageOne(size_t i, const EncodedHeader& header) const;
  const ReduceSpec& reduce_spec(size_t i) const { return reducers_[i].spec; }
  absl::Status CheckStaged(size_t i, const StagedUpdate& update) const;

  // Decodes and validates. `plan` comes from PlanUpdate(). Changes nothing. Thread-safe, also
  // beside the rest.
  absl::StatusOr<StagedTensors> Stage(std::span<const EncodedTensor> tensors,
                                      const UpdatePlan& plan, float weight) const;

  // Reserves the most that accumulating an update of these headers can take. Thread-safe, also
  // beside the rest.
  absl::StatusOr<Reservation> ReserveGrowth(std::span<const EncodedHeader> headers,
                                            const UpdatePlan& plan) const;

  // Folds an update into every tensor; afterwards this accounts for its own memory, and the growth
  // reserved for the update can go. After an error the reducers are of no more use: some tensors
  // may have it.
  absl::Status Accumulate(StagedTensors update, float weight);

  // INTERNAL (NOT_EXACT) unless exactly `updates` were folded in, with entries[i] in tensor i.
  absl::Status CheckFolded(uint64_t updates, std::span<const uint64_t> entries) const;

  // The results, with manifest.infinite_values set and the rest of the manifest empty. Ends the
  // reducers. INTERNAL (NOT_EXACT) where a back end has added fewer entries than it was given, or
  // more.
  absl::StatusOr<PublishedResult> Report();

  // The reservation for what the results hold, and the books of the updates. After Report().
  Reservation TakeMemory() { return std::move(memory_); }

 private:
  struct Reducer {
    ReduceSpec spec;
    Plan plan;
    std::unique_ptr<Aggregator> aggregator;
    uint64_t entries = 0;  // that were folded in
  };

  TensorReducers(RoundSpec spec, std::string backend, Admission& aggregation,
                 uint64_t result_nnz_max)
      : spec_(std::move(spec)),
        backend_(std::move(backend)),
        aggregation_(aggregation),
        result_nnz_max_(result_nnz_max) {}
  absl::Status CheckResultNnz(const Reducer& reducer, uint64_t nnz) const;

  RoundSpec spec_;
  std::string backend_;
  Admission& aggregation_;
  const uint64_t result_nnz_max_;
  Reservation memory_;    // what the aggregators hold, or the results, and the updates' records
  uint64_t updates_ = 0;  // that were folded in
  std::vector<Reducer> reducers_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_INGEST_TENSOR_REDUCERS_H_

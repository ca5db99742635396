// The aggregators of one specification, one for each tensor. A round and a stateless reduction both
// use them.
//
//   Stage (any thread, no change) -> Accumulate (one thread at a time) -> Report
#ifndef SPARSEAGG_SERVICE_ENGINE_INGEST_TENSOR_REDUCERS_H_
#define SPARSEAGG_SERVICE_ENGINE_INGEST_TENSOR_REDUCERS_H_

#include <memory>
#include <span>
#include <vector>

#include "service/engine/ingest/update.h"
#include "service/engine/memory/admission.h"
#include "service/engine/partial/round_partial.h"
#include "service/engine/types.h"

namespace sparseagg {

// One decoded and valid update in memory of the back end. Tensors are in the order of the
// specification.
using StagedTensors = std::vector<StagedUpdate>;

class TensorReducers {
 public:
  // Make() reserves within the budget (kEnforce), or only records the memory of a round that was
  // accepted before (kRecordOnly).
  enum class Budget { kEnforce, kRecordOnly };
  // Updates are reduced in batches while others arrive, or all at once by Report() or Snapshot().
  enum class Folding { kInBatches, kAtOnce };
  struct Settings {
    uint64_t result_nnz_max = 0;
    Budget budget = Budget::kEnforce;
    Folding folding = Folding::kInBatches;
  };

  // Plans every tensor and reserves memory from `aggregation`. Errors are those of
  // MakeReduceSpec(), MakePlan(), Admission::Reserve() and Backend::NewAggregator(). A tensor whose
  // result has more than `settings.result_nnz_max` entries is an error (INVALID_ARGUMENT,
  // RESULT_NNZ_EXCEEDED): of Stage() if one update alone exceeds the limit, otherwise of Report().
  static absl::StatusOr<std::unique_ptr<TensorReducers>> Make(const RoundSpec& spec,
                                                              Backend& backend,
                                                              Admission& aggregation,
                                                              const Settings& settings);

  const RoundSpec& spec() const { return spec_; }
  const std::string& backend() const { return backend_; }
  // Returns names, back end and plans, with all counters 0. Call it before the first Accumulate().
  std::vector<TensorStatus> Describe() const;
  // Returns how each tensor has been reduced so far. Call it on the thread of Accumulate() and
  // Report(); it may follow Report().
  std::vector<PlanReport> PlanReports() const;

  // These stage a single tensor, by its position in the specification: StageOne() allocates memory
  // for its entries, reduce_spec() says how to validate them, CheckStaged() checks the limit on the
  // result.
  absl::StatusOr<StagedUpdate> StageOne(size_t i, const EncodedHeader& header) const;
  const ReduceSpec& reduce_spec(size_t i) const { return reducers_[i].spec; }
  absl::Status CheckStaged(size_t i, const StagedUpdate& update) const;

  // Decodes and validates an update. `layout` is the result of MakeUpdateLayout(). Changes no
  // accumulator. Thread-safe, also concurrently with the other functions.
  absl::StatusOr<StagedTensors> Stage(std::span<const EncodedTensor> tensors,
                                      const UpdateLayout& layout, float weight) const;

  // Reserves the most memory that accumulating an update with these headers can take. Thread-safe,
  // also concurrently with the other functions.
  absl::StatusOr<Reservation> ReserveGrowth(std::span<const EncodedHeader> headers,
                                            const UpdateLayout& layout) const;

  // Folds an update into every tensor. Afterwards the reducers account for their own memory, and
  // the caller may release the growth reserved for the update. After an error the reducers are
  // unusable, because some tensors may have the update and others not.
  absl::Status Accumulate(StagedTensors update, float weight);

  // Returns the exact state of every tensor, without the names of the updates. Does not change the
  // result.
  absl::StatusOr<RoundPartial> Snapshot();

  // Checks that a partial aggregate is of the same tensors (SPEC_MISMATCH) and reserves the most
  // memory that merging it can take. Changes nothing. Thread-safe, also concurrently with the other
  // functions.
  absl::StatusOr<Reservation> ReserveMerge(const RoundPartial& partial) const;
  // Returns the error with which Merge() would fail now: TOO_MANY_ENTRIES, if there would be too
  // many entries, or contributors, for the accumulators.
  absl::Status CheckMerge(const RoundPartial& partial) const;
  // Adds what the partial aggregate holds. It counts as one update. After an error the reducers are
  // unusable. REQUIRES: ReserveMerge() accepted it.
  absl::Status Merge(RoundPartial partial);

  // Returns INTERNAL (NOT_EXACT) unless exactly `updates` updates were folded, with entries[i]
  // entries in tensor i.
  absl::Status CheckFolded(uint64_t updates, std::span<const uint64_t> entries) const;

  // Returns the results, with manifest.infinite_values set and the rest of the manifest empty. The
  // reducers cannot be used afterwards. Returns INTERNAL (NOT_EXACT) if a back end added fewer or
  // more entries than it was given.
  absl::StatusOr<PublishedResult> Report();

  // As Report(), for a round whose result is its partial aggregate. `covered` are its updates,
  // sorted by contributor.
  absl::StatusOr<PublishedResult> ReportPartial(std::vector<UpdateRecord> covered);

  // Takes the reservation for the results and for the records of the updates. Call it after
  // Report().
  Reservation TakeMemory() { return std::move(memory_); }

 private:
  struct Reducer {
    ReduceSpec spec;
    Plan plan;
    std::unique_ptr<Aggregator> aggregator;
    uint64_t entries = 0;  // folded so far
    // The same as the aggregator counts it: a partial aggregate adds a bound of its slots, which is
    // less than its number of entries (sparse/partials/slices.h).
    uint64_t addends = 0;
  };

  TensorReducers(RoundSpec spec, std::string backend, Admission& aggregation,
                 uint64_t result_nnz_max)
      : spec_(std::move(spec)),
        backend_(std::move(backend)),
        aggregation_(aggregation),
        result_nnz_max_(result_nnz_max) {}
  absl::Status CheckResultNnz(const Reducer& reducer, uint64_t nnz) const;
  // Makes the reservation what the reducers hold.
  void AccountForMemory();

  RoundSpec spec_;
  std::string backend_;
  Admission& aggregation_;
  const uint64_t result_nnz_max_;
  Reservation memory_;         // for the aggregators or the results, and for the updates' records
  uint64_t updates_ = 0;       // folded so far
  uint64_t contributors_ = 0;  // of those, with all that partial aggregates cover
  uint64_t records_ = 0;  // of those; without contributors that a partial aggregate does not name
  std::vector<Reducer> reducers_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_INGEST_TENSOR_REDUCERS_H_

#include "service/engine/ingest/tensor_reducers.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/names.h"
#include "sparse/validate.h"

namespace sparseagg {
namespace {

absl::Status NotExact(const ReduceSpec& spec, std::string_view what) {
  return MakeError(
      absl::StatusCode::kInternal, "NOT_EXACT",
      absl::StrCat("tensor ", Quoted(spec.name), ": ", std::string(what),
                   "; this is a fault of the server, so the round has no result: please "
                   "report it"));
}

// Returns whether the round has none of a tensor's rows, which its owners have, or other owners.
bool HasNoRows(const RoundTree& tree, size_t tensor, const TensorLayout& layout) {
  if (!tree.part.has_value()) return tree.is_divided();
  const auto [first, end] = RowsOf(tree.part->rows, tensor, layout.num_rows);
  return first == end;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorReducers>> TensorReducers::Make(const RoundSpec& spec,
                                                                     Backend& backend,
                                                                     Admission& aggregation,
                                                                     const Settings& settings) {
  std::unique_ptr<TensorReducers> reducers(
      new TensorReducers(spec, backend.info().name, aggregation, settings.result_nnz_max));
  uint64_t bytes = 0;
  for (const TensorSpec& tensor : spec.tensors) {
    Reducer reducer;
    SPARSEAGG_ASSIGN_OR_RETURN(reducer.spec, MakeReduceSpec(tensor));
    const Workload workload{.at_once = settings.folding == Folding::kAtOnce};
    // The last plan takes no memory for rows that will not come.
    const bool is_empty = HasNoRows(spec.tree, reducers->reducers_.size(), reducer.spec.layout);
    SPARSEAGG_ASSIGN_OR_RETURN(reducer.plan,
                               MakePlan(reducer.spec, workload, backend.info(),
                                        is_empty ? backend.info().plans.back() : tensor.plan));
    bytes += reducer.plan.cost.index_space_bytes();
    reducers->reducers_.push_back(std::move(reducer));
  }
  if (settings.budget == Budget::kRecordOnly) {
    reducers->memory_ = aggregation.RecordReservation(bytes);
  } else {
    SPARSEAGG_ASSIGN_OR_RETURN(reducers->memory_, aggregation.Reserve(bytes, "the round"));
  }
  for (Reducer& reducer : reducers->reducers_) {
    SPARSEAGG_ASSIGN_OR_RETURN(reducer.aggregator, backend.NewAggregator(reducer.plan));
  }
  return reducers;
}

std::vector<TensorStatus> TensorReducers::Describe() const {
  std::vector<TensorStatus> statuses;
  statuses.reserve(reducers_.size());
  for (const Reducer& reducer : reducers_) {
    statuses.push_back({.name = reducer.spec.name,
                        .backend = backend_,
                        .reduction = reducer.aggregator->plan_report()});
  }
  return statuses;
}

std::vector<PlanReport> TensorReducers::PlanReports() const {
  std::vector<PlanReport> reports;
  reports.reserve(reducers_.size());
  for (const Reducer& reducer : reducers_) reports.push_back(reducer.aggregator->plan_report());
  return reports;
}

absl::StatusOr<StagedTensors> TensorReducers::Stage(std::span<const EncodedTensor> tensors,
                                                    const UpdateLayout& layout,
                                                    float weight) const {
  StagedTensors staged;
  staged.reserve(reducers_.size());
  for (size_t i = 0; i < reducers_.size(); ++i) {
    const Reducer& reducer = reducers_[i];
    const EncodedTensor& tensor = tensors[layout.order[i]];
    SPARSEAGG_ASSIGN_OR_RETURN(const Encoding* encoding, FindEncoding(tensor.header.encoding));
    SPARSEAGG_ASSIGN_OR_RETURN(StagedUpdate update, reducer.aggregator->Stage(tensor.header.nnz));
    SPARSEAGG_RETURN_IF_ERROR(encoding->decode(tensor.header, spec_.tensors[i], tensor.indices,
                                               tensor.values, update.entries));
    SPARSEAGG_ASSIGN_OR_RETURN(update.order,
                               ValidateUpdate(reducer.spec, update.entries.view(), weight));
    SPARSEAGG_RETURN_IF_ERROR(CheckStaged(i, update));
    staged.push_back(std::move(update));
  }
  return staged;
}

absl::StatusOr<StagedUpdate> TensorReducers::StageOne(size_t i, const EncodedHeader& header) const {
  SPARSEAGG_ASSIGN_OR_RETURN(const Encoding* encoding, FindEncoding(header.encoding));
  return reducers_[i].aggregator->StageIncremental(header.nnz, encoding->row_forms(header));
}

absl::Status TensorReducers::CheckStaged(size_t i, const StagedUpdate& update) const {
  // Canonical rows are distinct, so the result has at least as many.
  if (update.order != EntryOrder::kCanonical) return absl::OkStatus();
  return CheckResultNnz(reducers_[i], update.entries.nnz);
}

absl::Status TensorReducers::CheckResultNnz(const Reducer& reducer, uint64_t nnz) const {
  if (nnz <= result_nnz_max_) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, "RESULT_NNZ_EXCEEDED",
                   absl::StrCat("tensor ", Quoted(reducer.spec.name), ": the result has ", nnz,
                                " entries or more, above result-nnz-max = ", result_nnz_max_,
                                "; send fewer rows, or raise the limit"));
}

absl::StatusOr<Reservation> TensorReducers::ReserveGrowth(std::span<const EncodedHeader> headers,
                                                          const UpdateLayout& layout) const {
  // The nnz of a header is within the limits, since MakeUpdateLayout() has checked it.
  uint64_t bytes = kRecordBytes;
  for (size_t i = 0; i < reducers_.size(); ++i) {
    bytes += headers[layout.order[i]].nnz * reducers_[i].plan.cost.entry_bytes;
  }
  return aggregation_.Reserve(bytes);
}

absl::Status TensorReducers::Accumulate(StagedTensors update, float weight) {
  ++updates_;
  ++contributors_;
  ++records_;
  for (size_t i = 0; i < reducers_.size(); ++i) {
    reducers_[i].entries += update[i].entries.nnz;
    reducers_[i].addends += update[i].entries.nnz;
    SPARSEAGG_RETURN_IF_ERROR(reducers_[i].aggregator->Accumulate(std::move(update[i]), weight));
  }
  AccountForMemory();
  return absl::OkStatus();
}

void TensorReducers::AccountForMemory() {
  uint64_t bytes = records_ * kRecordBytes;
  for (const Reducer& reducer : reducers_) bytes += reducer.aggregator->memory_bytes();
  memory_.SetBytes(bytes);
}

absl::StatusOr<RoundPartial> TensorReducers::Snapshot() {
  RoundPartial partial;
  partial.specs = spec_.tensors;
  for (const Reducer& reducer : reducers_) {
    SPARSEAGG_ASSIGN_OR_RETURN(partial.tensors.emplace_back(), reducer.aggregator->Snapshot());
    partial.entries.push_back(reducer.entries);
  }
  AccountForMemory();  // waiting entries have been reduced
  return partial;
}

absl::StatusOr<Reservation> TensorReducers::ReserveMerge(const RoundPartial& partial) const {
  SPARSEAGG_RETURN_IF_ERROR(CheckSameTensors(spec_.tensors, partial.specs));
  uint64_t bytes = (1 + partial.covered.size()) * kRecordBytes;
  for (size_t i = 0; i < reducers_.size(); ++i) {
    bytes += partial.tensors[i].rows.size() * reducers_[i].plan.cost.entry_bytes;
    SPARSEAGG_RETURN_IF_ERROR(CheckResultNnz(reducers_[i], partial.tensors[i].rows.size()));
  }
  return aggregation_.Reserve(bytes);
}

absl::Status TensorReducers::CheckMerge(const RoundPartial& partial) const {
  for (size_t i = 0; i < reducers_.size(); ++i) {
    Partial own;
    own.spec = reducers_[i].spec;
    own.addends = reducers_[i].addends;
    SPARSEAGG_RETURN_IF_ERROR(CheckMergeable(own, partial.tensors[i]));
  }
  if (contributors_ + partial.tensors.front().contributors <= kPartialContributorsMax) {
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kResourceExhausted, "TOO_MANY_ENTRIES",
                   absl::StrCat("more than ", kPartialContributorsMax, " contributors"));
}

absl::Status TensorReducers::Merge(RoundPartial partial) {
  SPARSEAGG_RETURN_IF_ERROR(CheckMerge(partial));
  ++updates_;
  contributors_ += partial.tensors.front().contributors;
  records_ += std::max<uint64_t>(1, partial.covered.size());
  for (size_t i = 0; i < reducers_.size(); ++i) {
    reducers_[i].entries += partial.entries[i];
    reducers_[i].addends += partial.tensors[i].addends;
    SPARSEAGG_RETURN_IF_ERROR(reducers_[i].aggregator->Merge(std::move(partial.tensors[i])));
  }
  AccountForMemory();
  return absl::OkStatus();
}

absl::Status TensorReducers::CheckFolded(uint64_t updates,
                                         std::span<const uint64_t> entries) const {
  for (size_t i = 0; i < reducers_.size(); ++i) {
    if (updates_ == updates && reducers_[i].entries == entries[i]) continue;
    return NotExact(reducers_[i].spec,
                    absl::StrCat(updates, " updates with ", entries[i], " entries were accepted, ",
                                 updates_, " with ", reducers_[i].entries, " were folded in"));
  }
  return absl::OkStatus();
}

absl::StatusOr<PublishedResult> TensorReducers::Report() {
  PublishedResult result;
  result.spec = spec_;
  uint64_t bytes = records_ * kRecordBytes;
  for (size_t i = 0; i < reducers_.size(); ++i) {
    SPARSEAGG_ASSIGN_OR_RETURN(Aggregate aggregate, std::move(*reducers_[i].aggregator).Report());
    if (aggregate.addends != reducers_[i].addends) {
      return NotExact(reducers_[i].spec,
                      absl::StrCat(aggregate.addends, " of ", reducers_[i].addends,
                                   " entries are in the result"));
    }
    SPARSEAGG_RETURN_IF_ERROR(CheckResultNnz(reducers_[i], aggregate.tensor.nnz()));
    result.manifest.infinite_values += aggregate.infinite_values;
    bytes += aggregate.tensor.indices.MemoryBytes() + aggregate.tensor.values.size();
    result.tensors.push_back(std::move(aggregate.tensor));
    result.result_specs.push_back(ResultSpec(spec_.tensors[i]));
  }
  memory_.SetBytes(bytes);
  return result;
}

absl::StatusOr<PublishedResult> TensorReducers::ReportPartial(std::vector<UpdateRecord> covered) {
  PublishedResult result;
  result.spec = spec_;
  SPARSEAGG_ASSIGN_OR_RETURN(RoundPartial partial, Snapshot());
  partial.named = true;
  partial.covered = std::move(covered);
  for (size_t i = 0; i < reducers_.size(); ++i) {
    const Partial& tensor = partial.tensors[i];
    if (tensor.addends != reducers_[i].addends || tensor.contributors != partial.covered.size()) {
      return NotExact(reducers_[i].spec,
                      absl::StrCat(tensor.addends, " of ", reducers_[i].addends, " entries of ",
                                   tensor.contributors, " of ", partial.covered.size(),
                                   " contributors are in the partial aggregate"));
    }
    SPARSEAGG_RETURN_IF_ERROR(CheckResultNnz(reducers_[i], tensor.rows.size()));
  }
  result.partial = WritePartial(partial);
  memory_.SetBytes(records_ * kRecordBytes + result.partial.size());
  return result;
}

}  // namespace sparseagg

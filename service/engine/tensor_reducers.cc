#include "service/engine/tensor_reducers.h"

#include <utility>

#include "service/engine/round_spec.h"
#include "sparse/status.h"
#include "sparse/validate.h"

namespace sparseagg {

absl::StatusOr<std::unique_ptr<TensorReducers>> TensorReducers::Make(const RoundSpec& spec,
                                                                     Backend& backend) {
  std::unique_ptr<TensorReducers> reducers(new TensorReducers(spec, backend.info().name));
  for (const TensorSpec& tensor : spec.tensors) {
    Reducer reducer;
    SPARSEAGG_ASSIGN_OR_RETURN(reducer.spec, MakeReduceSpec(tensor));
    SPARSEAGG_ASSIGN_OR_RETURN(reducer.plan,
                               MakePlan(reducer.spec, Workload{}, backend.info(), tensor.plan));
    SPARSEAGG_ASSIGN_OR_RETURN(reducer.aggregator, backend.NewAggregator(reducer.plan));
    reducers->reducers_.push_back(std::move(reducer));
  }
  return reducers;
}

std::vector<TensorStatus> TensorReducers::Describe() const {
  std::vector<TensorStatus> statuses;
  statuses.reserve(reducers_.size());
  for (const Reducer& reducer : reducers_) {
    statuses.push_back({.name = reducer.spec.name,
                        .backend = backend_,
                        .plan = reducer.plan.name,
                        .plan_reason = reducer.plan.reason});
  }
  return statuses;
}

absl::StatusOr<StagedTensors> TensorReducers::Stage(std::span<const EncodedTensor> tensors,
                                                    const UpdatePlan& plan, float weight) const {
  StagedTensors staged;
  staged.reserve(reducers_.size());
  for (size_t i = 0; i < reducers_.size(); ++i) {
    const Reducer& reducer = reducers_[i];
    const EncodedTensor& tensor = tensors[plan.order[i]];
    SPARSEAGG_ASSIGN_OR_RETURN(const Encoding* encoding, FindEncoding(tensor.header.encoding));
    SPARSEAGG_ASSIGN_OR_RETURN(StagedUpdate update, reducer.aggregator->Stage(tensor.header.nnz));
    SPARSEAGG_RETURN_IF_ERROR(encoding->decode(tensor.header, spec_.tensors[i], tensor.indices,
                                               tensor.values, update.entries));
    SPARSEAGG_RETURN_IF_ERROR(ValidateUpdate(reducer.spec, update.entries.view(), weight));
    staged.push_back(std::move(update));
  }
  return staged;
}

absl::Status TensorReducers::Accumulate(StagedTensors update, float weight) {
  for (size_t i = 0; i < reducers_.size(); ++i) {
    SPARSEAGG_RETURN_IF_ERROR(reducers_[i].aggregator->Accumulate(std::move(update[i]), weight));
  }
  return absl::OkStatus();
}

absl::StatusOr<PublishedResult> TensorReducers::Report() {
  PublishedResult result;
  result.spec = spec_;
  for (size_t i = 0; i < reducers_.size(); ++i) {
    SPARSEAGG_ASSIGN_OR_RETURN(Aggregate aggregate, std::move(*reducers_[i].aggregator).Report());
    result.manifest.infinite_values += aggregate.infinite_values;
    result.tensors.push_back(std::move(aggregate.tensor));
    result.result_specs.push_back(ResultSpec(spec_.tensors[i]));
  }
  return result;
}

}  // namespace sparseagg

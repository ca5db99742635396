#include "client/cli/local_reduce.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "client/cli/tensor_spec.h"
#include "sparse/validate.h"

namespace sparseagg::cli {
namespace {

struct LocalTensor {
  TensorSpec spec;
  ReduceSpec reduce;
  std::unique_ptr<Aggregator> aggregator;
  uint64_t nnz_received = 0;
};

absl::StatusOr<LocalTensor> Begin(const TensorSpec& spec, const Workload& workload,
                                  Backend& backend) {
  LocalTensor tensor;
  tensor.spec = spec;
  SPARSEAGG_ASSIGN_OR_RETURN(tensor.reduce, MakeReduceSpec(spec));
  SPARSEAGG_ASSIGN_OR_RETURN(const Plan plan,
                             MakePlan(tensor.reduce, workload, backend.info(), spec.plan));
  SPARSEAGG_ASSIGN_OR_RETURN(tensor.aggregator, backend.NewAggregator(plan));
  return tensor;
}

// Plans with the size and the order of the first update, because the others have not been read yet.
absl::StatusOr<std::vector<LocalTensor>> BeginAll(const client::ReduceRequest& request,
                                                  const client::Update& first, bool at_once,
                                                  Backend& backend) {
  std::vector<LocalTensor> tensors;
  for (size_t t = 0; t < request.tensors.size(); ++t) {
    const CooView& entries = first.tensors[t].entries;
    const Workload workload{.contributors = request.num_updates,
                            .nnz_per_update = entries.nnz,
                            .order = OrderOf(entries.rows.wide(), entries.nnz),
                            .at_once = at_once};
    SPARSEAGG_ASSIGN_OR_RETURN(LocalTensor tensor, Begin(request.tensors[t], workload, backend));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::StatusOr<StagedUpdate> Stage(const LocalTensor& tensor, const client::TensorView& given,
                                   float weight) {
  const CooView& from = given.entries;
  SPARSEAGG_ASSIGN_OR_RETURN(StagedUpdate staged, tensor.aggregator->Stage(from.nnz));
  if (from.nnz > 0) {
    std::memcpy(staged.entries.rows.wide(), from.rows.wide(), from.nnz * sizeof(uint64_t));
    std::memcpy(staged.entries.values, from.values, from.nnz * from.layout.row_bytes());
  }
  SPARSEAGG_ASSIGN_OR_RETURN(staged.order,
                             ValidateUpdate(tensor.reduce, staged.entries.view(), weight));
  return staged;
}

absl::Status Add(const client::Update& update, std::vector<LocalTensor>& tensors) {
  SPARSEAGG_RETURN_IF_ERROR(ValidateWeight(update.weight));
  for (size_t t = 0; t < tensors.size(); ++t) {
    SPARSEAGG_ASSIGN_OR_RETURN(StagedUpdate staged,
                               Stage(tensors[t], update.tensors[t], update.weight));
    tensors[t].nnz_received += staged.entries.nnz;
    SPARSEAGG_RETURN_IF_ERROR(tensors[t].aggregator->Accumulate(std::move(staged), update.weight));
  }
  return absl::OkStatus();
}

// After Report().
client::TensorStatus StatusOf(const LocalTensor& tensor, const std::string& backend,
                              uint64_t nnz_result) {
  const PlanReport report = tensor.aggregator->plan_report();
  return {.name = tensor.spec.name,
          .backend = backend,
          .plan = report.plan,
          .plan_reason = report.reason,
          .nnz_received = tensor.nnz_received,
          .nnz_result = nnz_result,
          .predicted_seconds = report.predicted_seconds,
          .measured_seconds = report.seconds};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(std::span<const BackendFactory> factories,
                                                     const std::string& name) {
  std::vector<std::string> names;
  std::string why;
  for (const BackendFactory& factory : factories) {
    names.emplace_back(factory.name);
    if (!name.empty() && factory.name != name) continue;
    absl::StatusOr<std::unique_ptr<Backend>> backend = factory.make({});
    if (backend.ok()) return backend;
    absl::StrAppend(&why, why.empty() ? "" : "; ", std::string(factory.name), ": ",
                    std::string(backend.status().message()));
  }
  if (why.empty()) {
    return BadArgument(absl::StrCat("--backend ", name, " is unknown; this program has ",
                                    absl::StrJoin(names, ", ")));
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, "BACKEND_UNAVAILABLE", why);
}

absl::StatusOr<LocalReduction> ReduceLocally(const client::ReduceRequest& request,
                                             uint64_t bytes_max, Backend& backend) {
  // The other half is for the result and the memory of the plan.
  const bool at_once = bytes_max <= backend.info().memory_bytes / 2;
  std::vector<LocalTensor> tensors;
  for (uint64_t i = 0; i < request.num_updates; ++i) {
    SPARSEAGG_ASSIGN_OR_RETURN(const client::Update update, request.update(i));
    if (i == 0) {
      SPARSEAGG_ASSIGN_OR_RETURN(tensors, BeginAll(request, update, at_once, backend));
    }
    SPARSEAGG_RETURN_IF_ERROR(AttributeToUpdate(Add(update, tensors), update.update_id));
  }
  LocalReduction local;
  local.entries.reserve(tensors.size());
  local.rows.resize(tensors.size());
  for (LocalTensor& tensor : tensors) {
    SPARSEAGG_ASSIGN_OR_RETURN(Aggregate aggregate, std::move(*tensor.aggregator).Report());
    const SparseTensor& result = local.entries.emplace_back(std::move(aggregate.tensor));
    const uint64_t* rows = result.indices.Array(local.rows[local.tensors.size()]).data();
    const CooView entries{result.layout, result.nnz(), rows, result.values.data()};
    local.tensors.push_back(
        {tensor.spec.name, ResultSpec(tensor.spec).dense_shape, tensor.spec.sparse_dim, entries});
    local.status.push_back(StatusOf(tensor, backend.info().name, result.nnz()));
  }
  return local;
}

}  // namespace sparseagg::cli

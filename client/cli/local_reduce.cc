#include "client/cli/local_reduce.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/tensor_spec.h"
#include "sparse/status.h"
#include "sparse/validate.h"

namespace sparseagg::cli {
namespace {

struct Reduction {
  TensorSpec spec;
  ReduceSpec reduce;
  std::unique_ptr<Aggregator> aggregator;
};

absl::StatusOr<Reduction> Begin(const TensorSpec& spec, uint64_t contributors, Backend& backend) {
  Reduction reduction;
  reduction.spec = spec;
  SPARSEAGG_ASSIGN_OR_RETURN(reduction.reduce, MakeReduceSpec(spec));
  SPARSEAGG_ASSIGN_OR_RETURN(
      const Plan plan, MakePlan(reduction.reduce, {contributors, 0}, backend.info(), spec.plan));
  SPARSEAGG_ASSIGN_OR_RETURN(reduction.aggregator, backend.NewAggregator(plan));
  return reduction;
}

absl::StatusOr<StagedUpdate> Stage(const Reduction& reduction, const client::TensorView& tensor,
                                   float weight) {
  const CooView& from = tensor.entries;
  SPARSEAGG_ASSIGN_OR_RETURN(StagedUpdate staged, reduction.aggregator->Stage(from.nnz));
  if (from.nnz > 0) {
    std::memcpy(staged.entries.indices, from.indices, from.nnz * sizeof(uint64_t));
    std::memcpy(staged.entries.values, from.values, from.nnz * from.layout.row_bytes());
  }
  SPARSEAGG_ASSIGN_OR_RETURN(staged.order,
                             ValidateUpdate(reduction.reduce, staged.entries.view(), weight));
  return staged;
}

// The server's rule for "count": one value for each row.
std::vector<int64_t> ResultShape(const TensorSpec& spec) {
  if (spec.op != "count") return spec.dense_shape;
  if (spec.sparse_dim == 0) return {1};
  return {spec.dense_shape.begin(), spec.dense_shape.begin() + spec.sparse_dim};
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

absl::StatusOr<std::vector<client::Tensor>> ReduceLocally(const client::ReduceRequest& request,
                                                          Backend& backend) {
  std::vector<Reduction> reductions;
  for (const TensorSpec& spec : request.tensors) {
    SPARSEAGG_ASSIGN_OR_RETURN(Reduction reduction, Begin(spec, request.num_updates, backend));
    reductions.push_back(std::move(reduction));
  }
  for (uint64_t i = 0; i < request.num_updates; ++i) {
    SPARSEAGG_ASSIGN_OR_RETURN(const client::Update update, request.update(i));
    SPARSEAGG_RETURN_IF_ERROR(ValidateWeight(update.weight));
    for (size_t t = 0; t < reductions.size(); ++t) {
      SPARSEAGG_ASSIGN_OR_RETURN(StagedUpdate staged,
                                 Stage(reductions[t], update.tensors[t], update.weight));
      SPARSEAGG_RETURN_IF_ERROR(
          reductions[t].aggregator->Accumulate(std::move(staged), update.weight));
    }
  }
  std::vector<client::Tensor> tensors;
  for (Reduction& reduction : reductions) {
    SPARSEAGG_ASSIGN_OR_RETURN(Aggregate aggregate, std::move(*reduction.aggregator).Report());
    SparseTensor& result = aggregate.tensor;
    tensors.push_back({reduction.spec.name, ResultShape(reduction.spec), reduction.spec.sparse_dim,
                       result.layout, std::move(result.indices), std::move(result.values)});
  }
  return tensors;
}

}  // namespace sparseagg::cli

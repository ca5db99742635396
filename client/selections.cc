#include "client/selections.h"

#include <algorithm>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg::client {
namespace {

absl::Status AddSelection(const TensorSpec& spec, const Selection& selection,
                          v1::IndexSelection& out) {
  SPARSEAGG_ASSIGN_OR_RETURN(const TensorLayout layout, MakeLayout(spec));
  if (spec.sparse_dim == 0) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "INVALID_SELECTION",
        absl::StrCat("tensor \"", spec.name, "\" has no indices (sparse_dim 0); pull it whole"));
  }
  const auto indexed_shape = std::span(spec.dense_shape).first(spec.sparse_dim);
  std::vector<int64_t> index(spec.sparse_dim);
  for (size_t i = 0; i < selection.rows.size(); ++i) {
    if (selection.rows[i] >= layout.num_rows) {
      return MakeError(absl::StatusCode::kInvalidArgument, "INDEX_OUT_OF_RANGE",
                       absl::StrCat("tensor \"", spec.name, "\": selected row ", selection.rows[i],
                                    " at entry ", i, " is not below ", layout.num_rows, " rows"));
    }
    UnflattenIndex(selection.rows[i], indexed_shape, index);
    out.mutable_indices()->append(reinterpret_cast<const char*>(index.data()),
                                  index.size() * sizeof(int64_t));
  }
  out.set_tensor(spec.name);
  out.set_index_type(v1::INDEX_TYPE_I64);
  return absl::OkStatus();
}

}  // namespace

absl::Status AddSelections(const RoundInfo& round, const std::vector<Selection>& selections,
                           v1::GetAggregateRequest& request) {
  for (const Selection& selection : selections) {
    const auto spec =
        std::find_if(round.tensors.begin(), round.tensors.end(),
                     [&](const TensorSpec& tensor) { return tensor.name == selection.tensor; });
    if (spec == round.tensors.end()) {
      return MakeError(absl::StatusCode::kInvalidArgument, "UNKNOWN_TENSOR",
                       absl::StrCat(round.name, " has no tensor \"", selection.tensor, "\""));
    }
    SPARSEAGG_RETURN_IF_ERROR(AddSelection(*spec, selection, *request.add_selections()));
  }
  return absl::OkStatus();
}

}  // namespace sparseagg::client

#include "service/rpc/result/selection.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/convert.h"
#include "sparse/encoding.h"

namespace sparseagg {
namespace {

template <typename Index>
absl::Status Flatten(const v1::IndexSelection& selection, const TensorSpec& spec,
                     std::vector<uint64_t>& rows) {
  const char* at = selection.indices().data();
  for (size_t entry = 0; entry < rows.size(); ++entry) {
    uint64_t row = 0;
    for (uint32_t d = 0; d < spec.sparse_dim; ++d) {
      Index index;
      std::memcpy(&index, at, sizeof(index));
      at += sizeof(index);
      if (index < 0 || index >= spec.dense_shape[d]) {
        return MakeError(
            absl::StatusCode::kInvalidArgument, "INDEX_OUT_OF_RANGE",
            absl::StrCat("tensor \"", spec.name, "\": selected index ", index, " at entry ", entry,
                         ", dimension ", d, " is not in [0, ", spec.dense_shape[d], ")"));
      }
      row = row * static_cast<uint64_t>(spec.dense_shape[d]) + static_cast<uint64_t>(index);
    }
    rows[entry] = row;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<uint64_t>> SelectedRows(const v1::IndexSelection& selection,
                                                   const TensorSpec& spec) {
  if (spec.sparse_dim == 0) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "INVALID_SELECTION",
        absl::StrCat("tensor \"", spec.name,
                     "\" has no indices (sparse_dim 0); request it without a selection"));
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const IndexType type, FromProto(selection.index_type(), spec.name));
  const size_t entry_bytes = spec.sparse_dim * SizeOf(type);
  if (selection.indices().size() % entry_bytes != 0) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "INVALID_SELECTION",
        absl::StrCat("tensor \"", spec.name, "\": the selection has ", selection.indices().size(),
                     " bytes, not a multiple of ", entry_bytes, " (", spec.sparse_dim,
                     " indices of ", SizeOf(type), " bytes)"));
  }
  std::vector<uint64_t> rows(selection.indices().size() / entry_bytes);
  SPARSEAGG_RETURN_IF_ERROR(type == IndexType::kI32 ? Flatten<int32_t>(selection, spec, rows)
                                                    : Flatten<int64_t>(selection, spec, rows));
  return rows;
}

}  // namespace sparseagg

#include "sparse/backend.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/host_vector.h"
#include "base/status.h"

namespace sparseagg {

absl::Status Aggregator::Absorb(Aggregator& other) {
  SPARSEAGG_ASSIGN_OR_RETURN(const Partial state, other.Snapshot());
  return Merge(state);
}

absl::StatusOr<StagedUpdate> StageOnHeap(const TensorLayout& layout, uint64_t nnz) {
  const unsigned __int128 needed =
      static_cast<unsigned __int128>(nnz) * (sizeof(uint64_t) + layout.row_bytes());
  StagedUpdate staged;
  staged.entries = {layout, nnz, nullptr, nullptr};
  if (nnz == 0) return staged;
  if (needed <= SIZE_MAX / 2) {
    staged.bytes = static_cast<uint64_t>(needed);
    staged.memory = {AllocateHost(staged.bytes), &FreeHost};
  }
  if (staged.memory == nullptr) {
    return MakeError(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY",
                     absl::StrCat("no memory for ", nnz, " entries of ",
                                  sizeof(uint64_t) + layout.row_bytes(), " bytes"));
  }
  auto* const rows = static_cast<uint64_t*>(staged.memory.get());
  staged.entries.rows = rows;
  staged.entries.values = rows + nnz;
  return staged;
}

}  // namespace sparseagg

// The heads of the slices of a tensor (sparse/partials/slices.h), which say where its rows go
// before any of them is read.
#ifndef SPARSEAGG_SPARSE_PARTIALS_SLICE_HEAD_H_
#define SPARSEAGG_SPARSE_PARTIALS_SLICE_HEAD_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sparse/partials/slot_kinds.h"
#include "sparse/types.h"

namespace sparseagg {

struct SliceHead {
  uint64_t number = 0;
  uint32_t rows = 0;
  std::string_view body;
  size_t first = 0;  // of its rows, in the partial aggregate
};

// Takes `slices` slices from the front of `bytes`. Errors: INVALID_ARGUMENT (INVALID_PARTIAL).
absl::StatusOr<std::vector<SliceHead>> TakeSliceHeads(const ReduceSpec& spec,
                                                      const SlotKinds& kinds, uint64_t slices,
                                                      std::string_view& bytes);

// Returns the error of a slice, by its number; `what` continues a sentence.
absl::Status InvalidSlice(const ReduceSpec& spec, uint64_t slice, std::string_view what);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_PARTIALS_SLICE_HEAD_H_

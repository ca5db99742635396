// The partial aggregate of a range of rows, cut out of the bytes of the whole one without reading
// its numbers. It covers the same updates.
#ifndef SPARSEAGG_SERVICE_ENGINE_PARTIAL_PARTIAL_SLICES_H_
#define SPARSEAGG_SERVICE_ENGINE_PARTIAL_PARTIAL_SLICES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "service/engine/partial/row_range.h"

namespace sparseagg {

// The bytes of a partial aggregate in pieces, which are in this order. `covered` and `slices` point
// into those that it was cut out of.
struct PartialSlices {
  std::string head;
  std::string_view covered;
  std::string_view slices;
  std::string digest;

  uint64_t size() const { return head.size() + covered.size() + slices.size() + digest.size(); }
  // Returns the bytes from `offset` on, at most `bytes` and those of one piece. REQUIRES: offset <
  // size().
  std::string_view Piece(uint64_t offset, uint64_t bytes) const;
};

// Hashes the bytes that it selects. The numbers of entries in the head stay those of all rows.
// Errors: those of CheckRowRange(); DATA_LOSS (STORE_CORRUPT) for bytes that WritePartial() does
// not write.
absl::StatusOr<PartialSlices> CutPartial(std::string_view partial, const RowRange& rows);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_PARTIAL_PARTIAL_SLICES_H_

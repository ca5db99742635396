// The rows whose sums are not in their slots alone: their few exact sums are made on the host.
#ifndef SPARSEAGG_CUDA_SIDE_ROWS_H_
#define SPARSEAGG_CUDA_SIDE_ROWS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "sparse/backend.h"
#include "sparse/partial.h"

namespace sparseagg::gpu {

// Rows of a sorted side table, each once, from rows[begin] up to rows[end - 1].
std::vector<uint64_t> SideRows(const std::vector<SideEntry>& side, const HostVector<uint64_t>& rows,
                               size_t begin, size_t end);

// The rows of a sorted side table, each once.
std::vector<uint64_t> RowsOf(std::span<const SideEntry> side);

struct SideFinalization {
  const ReduceSpec& spec;
  int32_t lsb;
  double total_weight;
};

// Writes the results of `rows`, ascending, into result.tensor, whose rows from `result_begin` on
// have all of them, and counts infinite ones. slots: [rows, SlotsPerRow]. `side` is sorted.
void FinalizeWithSide(const SideFinalization& finalization, const std::vector<uint64_t>& rows,
                      const std::vector<Int128>& slots, const std::vector<SideEntry>& side,
                      size_t result_begin, Aggregate& result);

// A window for the values of a partial aggregate of floating sums.
int32_t ChooseLsbOf(const Partial& partial);

// Adds the side table of a reduction of whole numbers to its slots, which hold them all.
void TakeSideIntoSlots(Partial& partial);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_SIDE_ROWS_H_

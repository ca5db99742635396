// Joins runs of cells, and converts them to partial aggregates and back.
#ifndef SPARSEAGG_CPU_WINDOWED_CELL_RUN_H_
#define SPARSEAGG_CPU_WINDOWED_CELL_RUN_H_

#include <cstdint>

#include "cpu/kernels/kernels.h"
#include "cpu/state/entries.h"
#include "sparse/partial.h"
#include "sparse/types.h"

namespace sparseagg {

// Returns the bytes that the arrays of a run hold.
uint64_t MemoryBytes(const CellRun& run);

// Returns a run with the rows of both; rows that both have are summed.
CellRun JoinRuns(const ReduceSpec& spec, const CpuKernels& kernels, const CellRun& a,
                 const CellRun& b);

// Returns a partial aggregate with its spec, rows, sums and side table; the caller sets the rest.
Partial ToPartial(const ReduceSpec& spec, CellRun run);

CellRun FromPartial(const ReduceSpec& spec, Partial partial);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_WINDOWED_CELL_RUN_H_

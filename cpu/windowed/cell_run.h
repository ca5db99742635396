// Runs of cells as wholes: joined with each other, and turned into partial aggregates and back.
#ifndef SPARSEAGG_CPU_WINDOWED_CELL_RUN_H_
#define SPARSEAGG_CPU_WINDOWED_CELL_RUN_H_

#include <cstdint>

#include "cpu/kernels/kernels.h"
#include "cpu/state/entries.h"
#include "sparse/partial.h"
#include "sparse/types.h"

namespace sparseagg {

// Bytes that the arrays of a run hold.
uint64_t MemoryBytes(const CellRun& run);

// All rows of both.
CellRun JoinRuns(const ReduceSpec& spec, const CpuKernels& kernels, const CellRun& a,
                 const CellRun& b);

// Rows, slots, side table and window of the partial aggregate; the caller knows the rest of it.
Partial ToPartial(const ReduceSpec& spec, const CellRun& run);

CellRun FromPartial(const ReduceSpec& spec, const Partial& partial);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_WINDOWED_CELL_RUN_H_

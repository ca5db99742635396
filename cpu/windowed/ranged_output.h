// The output of a reduction that several tasks write, each a range of rows. The number of rows of a
// range is unknown before it is reduced. A thread therefore writes its ranges one after another,
// the first of them at the last place where it could begin, and the gaps between threads are closed
// at the end. Pages that no range writes take no memory.
#ifndef SPARSEAGG_CPU_WINDOWED_RANGED_OUTPUT_H_
#define SPARSEAGG_CPU_WINDOWED_RANGED_OUTPUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "cpu/kernels/kernels.h"
#include "cpu/parallel.h"
#include "cpu/state/entries.h"
#include "cpu/windowed/range_reducer.h"
#include "cpu/windowed/speculation_backoff.h"
#include "cpu/windowed/work_stealing_ranges.h"
#include "sparse/types.h"

namespace sparseagg {

struct SparseSums {
  RowIds rows;
  HostVector<std::byte> values;     // results, or value cells
  HostVector<std::byte> row_cells;  // of cells
  std::vector<SideEntry> side;      // of cells, sorted
  uint64_t infinite_values = 0;     // of results
};

class RangedOutput {
 public:
  RangedOutput(const ReduceSpec& spec, const CpuKernels& kernels, const Finalization& finalization,
               Parallel& parallel);

  // Reserves the output. Range r has at most starts[r + 1] - starts[r] rows.
  void Reserve(std::vector<uint64_t> starts);
  // The same where range r has exactly counts[r] rows, so that no gap is left to close. Results of
  // every row do not list their rows.
  void ReserveExactly(const std::vector<uint64_t>& counts);

  // Calls reduce(r, reducer) for each range, in parallel. `prior`: see RangeReducer.
  template <class F>
  void ForEachRange(SideRange prior, const F& reduce) {
    WorkStealingRanges strips(ranges_.size(), parallel_.threads());
    parallel_.For(strips.size(), [&](size_t strip) {
      size_t at = 0;  // where the next range of this strip begins
      while (const auto taken = strips.Take(strip)) {
        const size_t r = taken->range;
        if (!taken->follows) at = starts_[r];
        RangeReducer reducer(spec_, kernels_, finalization_, prior, OutputOf(r, at), backoff_);
        reduce(r, reducer);
        Record(r, at, reducer);
        at += reducer.rows();
      }
    });
  }

  // Returns the whole output, or the first error in order of rows. `prior` side entries join those
  // of cells.
  absl::StatusOr<SparseSums> Close(const std::vector<SideEntry>& prior);

 private:
  struct Range {
    size_t at = 0;  // where it was written
    size_t rows = 0;
    std::vector<SideEntry> side;
    uint64_t infinite_values = 0;
    absl::Status status;
  };

  RangeOutput OutputOf(size_t r, size_t at);
  void Record(size_t r, size_t at, RangeReducer& reducer);
  void CloseGaps(std::byte* array, size_t bytes) const;
  void MoveDown(std::byte* to, const std::byte* from, size_t bytes) const;
  void JoinSides(const std::vector<SideEntry>& prior);

  const ReduceSpec& spec_;
  const CpuKernels& kernels_;
  const Finalization& finalization_;
  Parallel& parallel_;
  const size_t value_bytes_;  // of a row
  const size_t row_cell_bytes_;
  std::vector<Range> ranges_;
  std::vector<uint64_t> starts_;  // of the ranges, and the end
  bool writes_rows_ = true;
  bool streamed_ = false;
  SpeculationBackoff backoff_;
  SparseSums output_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_WINDOWED_RANGED_OUTPUT_H_

// Plan "dense": a cell for every coordinate of the index space, kept over the whole round. It is
// for small index spaces and dense tensors. It reserves addresses for the whole index space, but
// memory, and the time to finish, are those of the slices that hold rows.
//
// Cells are divided into slices, of rows or (where rows are few and wide) of columns. A slice
// belongs to one task, so cells are written without atomics.
#ifndef SPARSEAGG_CPU_DENSE_DENSE_PLAN_H_
#define SPARSEAGG_CPU_DENSE_DENSE_PLAN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "cpu/kernels/kernels.h"
#include "cpu/parallel.h"
#include "cpu/plan.h"
#include "cpu/state/error_cells.h"
#include "sparse/rows/packed_rows.h"

namespace sparseagg {

class DensePlan : public CpuReducer {
 public:
  DensePlan(const ReduceSpec& spec, const CpuKernels& kernels, Parallel& parallel);

  void Fold(std::vector<PendingUpdate> batch, Feed feed) override;
  void Merge(CellRun run) override;
  CellRun State() override;
  absl::StatusOr<SparseSums> Finish(std::vector<PendingUpdate> batch, Feed feed,
                                    double total_weight) override;
  uint64_t MemoryBytes() const override;

 private:
  static constexpr uint32_t kSliceColumns = 4096;  // their cells stay cached
  // Cells of a slice that sorted updates visit at a time: they stay in a core's second-level cache
  // beside entries that stream by (with 2^17 cells the server takes 12 % more time for scalars).
  // Wide rows take kWideCells.
  static constexpr uint64_t kVisitCells = uint64_t{1} << 13;

  CellWindow AllCells() { return {0, values_.data(), row_cells_.data()}; }
  CellWindow CellsFrom(uint64_t row);
  size_t SliceOf(uint64_t row) const { return row / (slices_[0].end - slices_[0].begin); }
  // Records that the slice holds rows. Returns whether it held none before: its cells are not clear
  // yet.
  bool MarkOccupied(size_t slice) { return std::exchange(occupied_[slice], uint8_t{1}) == 0; }
  void PrepareSlices(std::vector<size_t> slices);
  void Clear(uint64_t begin, uint64_t end);
  std::span<const std::byte> ValueCells(uint64_t begin, uint64_t end) const;
  size_t FirstOfGroup(size_t g) const { return g == 0 ? 0 : group_ends_[g - 1]; }
  RowWindow RowsOfGroup(size_t g) const;
  using Work = std::function<void(SideTable& side)>;
  std::vector<SideEntry> RunInSlice(size_t slice, const Work& work);
  void ForEachSlice(const std::function<void(size_t slice, SideTable& side)>& work,
                    bool parallel = true);
  void FoldFew(std::vector<Cursor>& cursors);
  void PrefetchValues(const Cursor& cursor, Columns columns) const;
  void FoldColumns(std::span<const Cursor> cursors);
  uint64_t RowsPerVisit(uint64_t entries, size_t cursors, uint64_t cells_least) const;
  void FoldSorted(std::span<const Cursor> cursors);
  void FoldNarrow(std::span<const PendingUpdate> updates);
  void FoldPacked(std::span<const PendingUpdate> updates);
  struct PackedSlice;
  void AddBlocks(const PendingUpdate& update, uint64_t limit, uint64_t& next, PackedSlice& slice);
  void AddBits(const PendingUpdate& update, const PackedRows::Bits& bits, uint64_t entry,
               PackedSlice& slice);
  void AddBlock(const PendingUpdate& update, const PackedRows::Block& block, PackedSlice& slice);
  void ClearUpTo(PackedSlice& slice, uint64_t end);
  void FoldUnsorted(std::span<const Cursor> cursors);
  ErrorCells* ErrorsOf(uint64_t row, uint32_t column);
  void SettleErrors();
  absl::StatusOr<SparseSums> Emit(const Finalization& finalization,
                                  const std::vector<SideEntry>& side);
  absl::StatusOr<SparseSums> EmitColumns(double total_weight);
  absl::Status FinalizeColumns(const CellBlock& row, Columns columns, double total_weight,
                               std::byte* out, uint64_t& infinite_values) const;
  SideRange SideOf(uint64_t row) const;
  void MergeSides(std::vector<std::vector<SideEntry>> sides);

  const ReduceSpec spec_;
  const CpuKernels& kernels_;
  Parallel& parallel_;
  const uint32_t width_;
  const bool by_columns_;
  std::vector<RowWindow> slices_;    // of rows, ascending
  std::vector<size_t> group_ends_;   // slices [group_ends_[g - 1], group_ends_[g]) are one task
  HostVector<std::byte> values_;     // [num_rows, row_width] cells
  HostVector<std::byte> row_cells_;  // [num_rows]
  // For each slice, whether a batch had rows in it. The first batch that does clears its cells as
  // it visits them, while they are cached. The cells of other slices are not read and take no
  // memory.
  std::vector<uint8_t> occupied_;
  std::vector<ErrorCells> errors_;  // for each slice, of rows or of columns
  std::vector<SideEntry> side_;     // sorted
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_DENSE_DENSE_PLAN_H_

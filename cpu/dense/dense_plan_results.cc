// Turns the dense plan's cells into results, or into a run.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "cpu/dense/dense_plan.h"
#include "cpu/windowed/ranged_output.h"

namespace sparseagg {

CellRun DensePlan::State() {
  SideTable side;
  side.Append(side_);
  for (const ErrorCells& errors : errors_) side.Append(errors);
  SparseSums sums = *Emit({}, side.Drain());  // cannot fail: it writes cells, not results
  return {std::move(sums.rows.kept()), std::move(sums.values), std::move(sums.row_cells),
          std::move(sums.side)};
}

absl::StatusOr<SparseSums> DensePlan::Finish(std::vector<PendingUpdate> batch, Feed feed,
                                             double total_weight) {
  if (!batch.empty()) Fold(std::move(batch), feed);
  const Finalization finalization{.results = true, .total_weight = total_weight};
  SettleErrors();
  if (by_columns_) return EmitColumns(total_weight);
  return Emit(finalization, side_);
}

// Returns the error cells that may hold errors of slot (row, column); null if there are none.
ErrorCells* DensePlan::ErrorsOf(uint64_t row, uint32_t column) {
  if (column == width_) return nullptr;  // the row's cell
  if (by_columns_) return &errors_[column / kSliceColumns];
  return &errors_[SliceOf(row)];
}

// Adds the error cells to their cells, before results are made. For slots with side entries, they
// become side entries instead.
void DensePlan::SettleErrors() {
  const auto holds = [](const ErrorCells& errors) { return errors.levels() > 0; };
  if (std::none_of(errors_.begin(), errors_.end(), holds)) return;
  SideTable moved;
  for (const SideEntry& entry : side_) {
    ErrorCells* const errors = ErrorsOf(entry.row, entry.column);
    if (errors != nullptr) moved.ExtractErrors(*errors, entry.row, entry.column);
  }
  std::vector<std::vector<SideEntry>> sides;
  sides.push_back(moved.Drain());
  MergeSides(std::move(sides));
  parallel_.For(errors_.size(), [&](size_t s) {
    ErrorCells& errors = errors_[s];
    if (errors.levels() == 0) return;
    if (!by_columns_) {
      kernels_.settle(CellsFrom(slices_[s].begin).values, errors, 0, errors.size());
    } else {
      const auto begin = static_cast<uint32_t>(s * kSliceColumns);
      for (uint64_t row = 0; row < spec_.layout.num_rows; ++row) {
        std::byte* const values = CellsFrom(row).values + size_t{begin} * kernels_.value_bytes;
        kernels_.settle(values, errors, errors.IndexOf(row, begin),
                        std::min(kSliceColumns, width_ - begin));
      }
    }
    errors = {};
  });
}

absl::StatusOr<SparseSums> DensePlan::Emit(const Finalization& finalization,
                                           const std::vector<SideEntry>& side) {
  RangedOutput output(spec_, kernels_, finalization, parallel_);
  // Rows are counted first: reading the cells once more takes less time than closing gaps between
  // ranges.
  std::vector<uint64_t> counts(group_ends_.size(), 0);
  parallel_.For(counts.size(), [&](size_t g) {
    for (size_t s = FirstOfGroup(g); s < group_ends_[g]; ++s) {
      if (occupied_[s] == 0) continue;
      const RowWindow& rows = slices_[s];
      counts[g] += kernels_.count_held(CellsFrom(rows.begin), rows.end - rows.begin, width_);
    }
  });
  output.ReserveExactly(counts);
  output.ForEachRange(side, [&](size_t g, RangeReducer& reducer) {
    for (size_t s = FirstOfGroup(g); s < group_ends_[g]; ++s) {
      if (occupied_[s] != 0) reducer.EmitCells(CellsFrom(slices_[s].begin), slices_[s]);
    }
  });
  return output.Close(side);
}

// Writes the results of few wide rows: the columns of each are finalized in parallel, in place.
absl::StatusOr<SparseSums> DensePlan::EmitColumns(double total_weight) {
  SparseSums sums;
  for (uint64_t row = 0; row < spec_.layout.num_rows; ++row) {
    if (occupied_[SliceOf(row)] != 0 && kernels_.count_held(CellsFrom(row), 1, width_) > 0)
      sums.rows.kept().push_back(row);
  }
  const uint64_t row_bytes = spec_.layout.row_bytes();
  sums.values.resize(sums.rows.size() * row_bytes);
  const size_t tasks = (width_ + kSliceColumns - 1) / kSliceColumns;
  for (size_t i = 0; i < sums.rows.size(); ++i) {
    const CellWindow cells = CellsFrom(sums.rows[i]);
    const CellBlock row{&sums.rows.kept()[i], cells.values, cells.row_cells};
    std::byte* out = sums.values.data() + i * row_bytes;
    std::vector<absl::Status> statuses(tasks);
    std::vector<uint64_t> infinite(tasks, 0);
    parallel_.For(tasks, [&](size_t t) {
      const auto begin = static_cast<uint32_t>(t * kSliceColumns);
      const uint32_t size = std::min(width_ - begin, kSliceColumns);
      statuses[t] = FinalizeColumns(row, {begin, begin + size}, total_weight, out, infinite[t]);
    });
    for (size_t t = 0; t < tasks; ++t) {
      // The error names a column within its task: the whole row is finalized again, to name the
      // column within the row.
      if (!statuses[t].ok()) {
        return kernels_.finalize(spec_, total_weight, row, 1, SideOf(*row.rows), out, infinite[t]);
      }
      sums.infinite_values += infinite[t];
    }
  }
  return sums;
}

// Finalizes columns of one row, as a row of their own.
absl::Status DensePlan::FinalizeColumns(const CellBlock& row, Columns columns, double total_weight,
                                        std::byte* out, uint64_t& infinite_values) const {
  ReduceSpec spec = spec_;
  spec.layout.row_width = columns.end - columns.begin;
  // By binary search, not a scan: every value of the row may have entries, and every task does
  // this.
  const SideRange all = SideOf(*row.rows);
  const auto from = [&all](uint32_t column) {
    return std::lower_bound(all.begin(), all.end(), column,
                            [](const SideEntry& a, uint32_t b) { return a.column < b; });
  };
  std::vector<SideEntry> side(from(columns.begin), from(columns.end));
  for (SideEntry& entry : side) entry.column -= columns.begin;
  for (auto of_row = from(width_); of_row != all.end(); ++of_row) {
    side.push_back(*of_row);
    side.back().column = spec.layout.row_width;
  }
  const CellBlock block{row.rows, row.values + size_t{columns.begin} * kernels_.value_bytes,
                        row.row_cells};
  return kernels_.finalize(spec, total_weight, block, 1, side,
                           out + size_t{columns.begin} * SizeOf(spec.layout.value_type),
                           infinite_values);
}

SideRange DensePlan::SideOf(uint64_t row) const {
  const auto [begin, end] =
      std::equal_range(side_.begin(), side_.end(), SideEntry{row, 0, 0, 0},
                       [](const SideEntry& a, const SideEntry& b) { return a.row < b.row; });
  return {begin, end};
}

}  // namespace sparseagg

#include "cpu/windowed/cell_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "cpu/state/cells.h"
#include "cpu/state/side_table.h"
#include "sparse/ops/all.h"
#include "sparse/window.h"

namespace sparseagg {
namespace {

// Calls f with the kind of cells of `spec`. Cells differ by operator and by floating or integer
// values, not by the width of the value.
template <class F>
void WithCells(const ReduceSpec& spec, const F& f) {
  AllOps::With(spec.op, [&](auto op) {
    using Op = decltype(op);
    if (IsFloating(spec.layout.value_type)) {
      f(Op{}, Cells<Op::kValues, Op::kRowSlot, double>{});
    } else {
      f(Op{}, Cells<Op::kValues, Op::kRowSlot, int64_t>{});
    }
  });
}

template <class T>
const T& At(const HostVector<std::byte>& cells, size_t i) {
  return reinterpret_cast<const T*>(cells.data())[i];
}
template <class T>
T& At(HostVector<std::byte>& cells, size_t i) {
  return reinterpret_cast<T*>(cells.data())[i];
}

// Returns a slot as a cell; what the cell does not hold goes to the side table.
double CellOf(Int128 slot, int32_t lsb, uint64_t row, uint32_t column,
              std::vector<SideEntry>& side) {
  if (slot == 0) return 0.0;
  const double cell = RoundScaled(slot, lsb, kFormatF64);
  Int128 held = 0;
  const bool is_exact = ToFixed(cell, lsb, &held) && held == slot;
  if (is_exact && std::fabs(cell) < kCellLimit) return cell;
  WideInteger rest;
  rest.AddScaled(slot, lsb);
  if (!(std::fabs(cell) < kCellLimit)) {
    AppendDigits(rest, row, column, side);
    return 0.0;
  }
  rest.Add(-cell);
  AppendDigits(rest, row, column, side);
  return cell;
}

void JoinSides(const std::vector<SideEntry>& a, const std::vector<SideEntry>& b,
               std::vector<SideEntry>& out) {
  out.insert(out.end(), a.begin(), a.end());
  out.insert(out.end(), b.begin(), b.end());
  SortSide(out);
  CompactSide(out);
}

bool IsInexact(const ReduceSpec& spec) {
  bool inexact = false;
  WithCells(spec, [&](auto, auto cells) {
    inexact = decltype(cells)::kInexactValues || decltype(cells)::kInexactRow;
  });
  return inexact;
}

// Adds side entries to integer cells, which need no side table; other back ends may keep integers
// in theirs.
void AddSideToCells(const ReduceSpec& spec, const std::vector<SideEntry>& side, CellRun& run) {
  const uint32_t width = spec.layout.row_width;
  const uint32_t last = SlotsPerRow(spec) - 1;
  for (size_t i = 0; i < side.size();) {
    const SideEntry& first = side[i];
    WideInteger sum;
    for (; i < side.size() && side[i].row == first.row && side[i].column == first.column; ++i) {
      sum.AddScaled(side[i].significand, side[i].exponent);
    }
    const auto at = static_cast<size_t>(
        std::lower_bound(run.rows.begin(), run.rows.end(), first.row) - run.rows.begin());
    WithCells(spec, [&](auto, auto cells) {
      using C = decltype(cells);
      if constexpr (C::kHasRow && !C::kInexactRow) {
        if (first.column == last) {
          At<int64_t>(run.row_cells, at) += static_cast<int64_t>(sum.ToInteger());
          return;
        }
      }
      if constexpr (C::kHasValues && !C::kFloating) {
        At<Int128>(run.values, at * width + first.column) += sum.ToInteger();
      }
    });
  }
}

}  // namespace

uint64_t MemoryBytes(const CellRun& run) {
  return run.rows.size() * sizeof(uint64_t) + run.values.size() + run.row_cells.size() +
         run.side.capacity() * sizeof(SideEntry);
}

CellRun JoinRuns(const ReduceSpec& spec, const CpuKernels& kernels, const CellRun& a,
                 const CellRun& b) {
  const uint32_t width = spec.layout.row_width;
  const size_t value_bytes = size_t{width} * kernels.value_bytes;
  const size_t row_bytes = kernels.row_bytes;
  CellRun out;
  out.rows.resize(a.rows.size() + b.rows.size());
  out.values.resize(out.rows.size() * value_bytes);
  out.row_cells.resize(out.rows.size() * row_bytes);
  SideTable side;
  size_t n = 0;
  size_t i = 0;
  size_t j = 0;
  const auto copy = [&](const CellRun& from, size_t at) {
    out.rows[n] = from.rows[at];
    std::copy_n(from.values.data() + at * value_bytes, value_bytes,
                out.values.data() + n * value_bytes);
    std::copy_n(from.row_cells.data() + at * row_bytes, row_bytes,
                out.row_cells.data() + n * row_bytes);
  };
  while (i < a.rows.size() || j < b.rows.size()) {
    if (j == b.rows.size() || (i < a.rows.size() && a.rows[i] < b.rows[j])) {
      copy(a, i++);
    } else if (i == a.rows.size() || b.rows[j] < a.rows[i]) {
      copy(b, j++);
    } else {
      copy(a, i++);
      RunCursor other{b.rows.data() + j, b.rows.data() + j + 1, b.values.data() + j * value_bytes,
                      b.row_cells.data() + j * row_bytes};
      const CellWindow row{out.rows[n], out.values.data() + n * value_bytes,
                           out.row_cells.data() + n * row_bytes};
      kernels.scatter_run(other, std::numeric_limits<uint64_t>::max(), width, row, side);
      ++j;
    }
    ++n;
  }
  out.rows.resize(n);
  out.values.resize(n * value_bytes);
  out.row_cells.resize(n * row_bytes);
  std::vector<SideEntry> before;
  JoinSides(a.side, b.side, before);
  JoinSides(before, side.Drain(), out.side);
  return out;
}

Partial ToPartial(const ReduceSpec& spec, CellRun run) {
  const uint32_t width = spec.layout.row_width;
  Partial partial;
  partial.spec = spec;
  partial.rows = std::move(run.rows);
  partial.side = std::move(run.side);
  WithCells(spec, [&](auto, auto cells) {
    using C = decltype(cells);
    if constexpr (C::kInexactValues) {
      partial.cells = std::move(run.values);
      partial.row_cells = std::move(run.row_cells);
      return;
    }
    partial.slots.reserve(partial.rows.size() * SlotsPerRow(spec));
    for (size_t i = 0; i < partial.rows.size(); ++i) {
      for (uint32_t c = 0; C::kHasValues && c < width; ++c) {
        if constexpr (C::kHasValues && C::kFloating) {
          partial.slots.push_back(OrderKey(At<double>(run.values, i * width + c)));
        } else if constexpr (C::kHasValues) {
          partial.slots.push_back(At<Int128>(run.values, i * width + c));
        }
      }
      // The row's slot comes after those of its values, if there are any.
      if constexpr (C::kHasRow) partial.slots.push_back(At<int64_t>(run.row_cells, i));
    }
  });
  return partial;
}

CellRun FromPartial(const ReduceSpec& spec, Partial partial) {
  const uint32_t width = spec.layout.row_width;
  const uint32_t slots = SlotsPerRow(spec);
  CellRun run;
  run.rows = std::move(partial.rows);
  if (HasCells(partial)) {
    run.values = std::move(partial.cells);
    run.row_cells = std::move(partial.row_cells);
    run.side = std::move(partial.side);
    return run;
  }
  std::vector<SideEntry> rests;
  WithCells(spec, [&](auto, auto cells) {
    using C = decltype(cells);
    run.values.resize(C::kHasValues ? run.rows.size() * width * C::kValueBytes : 0);
    run.row_cells.resize(run.rows.size() * C::kRowBytes);
    for (size_t i = 0; i < run.rows.size(); ++i) {
      const Int128* slot = partial.slots.data() + i * slots;
      for (uint32_t c = 0; C::kHasValues && c < width; ++c, ++slot) {
        if constexpr (C::kInexactValues) {
          At<double>(run.values, i * width + c) = CellOf(*slot, partial.lsb, run.rows[i], c, rests);
        } else if constexpr (C::kHasValues && C::kFloating) {
          At<double>(run.values, i * width + c) = FromOrderKey(static_cast<int64_t>(*slot));
        } else if constexpr (C::kHasValues) {
          At<Int128>(run.values, i * width + c) = *slot;
        }
      }
      if constexpr (C::kInexactRow) {
        At<double>(run.row_cells, i) = CellOf(*slot, partial.lsb, run.rows[i], width, rests);
      } else if constexpr (C::kHasRow) {
        At<int64_t>(run.row_cells, i) = static_cast<int64_t>(*slot);
      }
    }
  });
  if (IsInexact(spec)) {
    JoinSides(partial.side, rests, run.side);
  } else {
    AddSideToCells(spec, partial.side, run);
  }
  return run;
}

}  // namespace sparseagg

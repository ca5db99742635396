// What the kernels read and write: entries, and the cells that sum them.
//
// A cell is a coordinate's accumulator (cpu/state/cells.h): a double with its rounding errors kept
// in a side table, or a 128-bit integer. A row has row_width value cells (none for "count") and,
// where the operator depends on who holds the row, one row cell.
#ifndef SPARSEAGG_CPU_STATE_ENTRIES_H_
#define SPARSEAGG_CPU_STATE_ENTRIES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/host_vector.h"
#include "sparse/partial.h"

namespace sparseagg {

// Entries of one update, or of a part of one. A kernel consumes them from the front.
//
// A weight with its sign bit set (also -0) means its magnitude, and that the entry is not the first
// of its row in its update: the contributor is already counted as a holder of the row.
struct Cursor {
  const uint64_t* row = nullptr;  // of the next entry
  const uint64_t* end = nullptr;
  const std::byte* value = nullptr;  // of the next entry: [row_width] values
  const float* weights = nullptr;    // of the next entry; null: `weight` is that of all
  float weight = 1.0f;
  bool canonical = false;  // rows strictly ascending

  uint64_t size() const { return static_cast<uint64_t>(end - row); }

  // Returns how many entries are below `limit`; all of them for UINT64_MAX. REQUIRES: the rows are
  // sorted, unless `limit` is UINT64_MAX. Reads few rows beyond those: they are not cached yet.
  uint64_t SizeBelow(uint64_t limit) const {
    constexpr uint64_t kEntriesLikely = 7;
    if (limit == std::numeric_limits<uint64_t>::max()) return size();
    if (row == end || *row >= limit) return 0;
    const uint64_t most = canonical ? std::min(size(), limit - *row) : size();
    uint64_t below = 1;
    uint64_t step = kEntriesLikely;
    for (; step < most && row[step] < limit; step *= 2) below = step + 1;
    const uint64_t* last = row + std::min(step, most);
    return static_cast<uint64_t>(std::lower_bound(row + below, last, limit) - row);
  }
};

// Entries of one segment of an update whose rows are narrow (sparse/rows/narrow_rows.h). The window
// that they are added to begins where their segment does.
struct NarrowCursor {
  const uint16_t* row = nullptr;  // of the next entry, relative to the segment's first row
  const uint16_t* end = nullptr;
  const std::byte* value = nullptr;  // of the next entry
  float weight = 1.0f;               // not negative
  bool canonical = false;

  uint64_t size() const { return static_cast<uint64_t>(end - row); }
};

inline constexpr size_t kLineBytes = 64;

// Prefetches a line into the second-level cache, which can have more lines outstanding than the
// first (docs/decisions/0004-cpu-plans.md).
inline void PrefetchLine(const void* at) {
  constexpr int kSecondCache = 2;
  __builtin_prefetch(at, /*write=*/0, kSecondCache);
  asm volatile("");  // g++ 12 treats a function that only prefetches as one without effects
}

// Prefetches `lines` cache lines of a cursor's rows, and their values of `value_bytes` each.
inline void PrefetchEntries(const Cursor& cursor, size_t lines, size_t value_bytes) {
  constexpr size_t kRowsPerLine = kLineBytes / sizeof(uint64_t);
  for (size_t i = 0; i < lines; ++i) PrefetchLine(cursor.row + kRowsPerLine * i);
  const size_t bytes = lines * kRowsPerLine * value_bytes;
  for (size_t i = 0; i < bytes; i += kLineBytes) PrefetchLine(cursor.value + i);
}

// Prefetches a row, or the first KiB of it; the processor's own prefetcher then finds the rest.
inline void PrefetchRow(const std::byte* at, size_t bytes) {
  constexpr size_t kBytesMax = 1024;
  for (size_t line = 0; line < std::min(bytes, kBytesMax); line += kLineBytes) {
    PrefetchLine(at + line);
  }
}

// Prefetches part `part` of `parts` of some cells.
inline void PrefetchPart(std::span<const std::byte> cells, size_t part, size_t parts) {
  const size_t end = cells.size() * (part + 1) / parts;
  const size_t begin = cells.size() * part / parts / kLineBytes * kLineBytes;
  for (size_t at = begin; at < end; at += kLineBytes) PrefetchLine(cells.data() + at);
}

// Exact sums of some rows, ascending: the state of a reduction between two batches.
struct CellRun {
  HostVector<uint64_t> rows;        // [n], strictly ascending
  HostVector<std::byte> values;     // [n, row_width] value cells
  HostVector<std::byte> row_cells;  // [n], empty when the operator has none
  std::vector<SideEntry> side;      // sorted by (row, column); column row_width is the row cell
};

// Entries of a CellRun, consumed from the front.
struct RunCursor {
  const uint64_t* row = nullptr;
  const uint64_t* end = nullptr;
  const std::byte* value = nullptr;
  const std::byte* row_cell = nullptr;

  uint64_t size() const { return static_cast<uint64_t>(end - row); }
};

// Cells of the rows from `begin` on, one after another: [rows, row_width] and [rows].
struct CellWindow {
  uint64_t begin = 0;
  std::byte* values = nullptr;
  std::byte* row_cells = nullptr;
};

// Rows with their cells, in ascending order: the output of the kernels.
struct CellBlock {
  uint64_t* rows = nullptr;        // [n]
  std::byte* values = nullptr;     // [n, row_width]
  std::byte* row_cells = nullptr;  // [n]

  // Returns the index of the first row from the i-th on that is not below `row`; n if there is
  // none.
  size_t IndexOf(uint64_t row, size_t i, size_t n) const {
    return static_cast<size_t>(std::lower_bound(rows + i, rows + n, row) - rows);
  }
};

// A reference to a row of values, for rows too wide to be moved before they are added.
struct RowRef {
  const std::byte* values;    // of the value type, or cells when `row_cell` says so
  const std::byte* row_cell;  // of a CellRun (or any address in it); null: an update's entry
  float weight;               // as in Cursor
};

// The sort key of an entry of a sparse window: the row's distance from `begin`, shifted right by
// `drop`, above the entry's position in `position_bits` bits.
struct KeyForm {
  uint64_t begin = 0;
  int position_bits = 0;
  int drop = 0;  // > 0: keys do not tell rows apart completely

  uint64_t KeyOf(uint64_t row, size_t position) const {
    return (((row - begin) >> drop) << position_bits) | position;
  }
};

// Entries of one sparse window in order of arrival, and their keys; where those do not tell rows
// apart, `rows` does.
struct PackedWindow : KeyForm {
  size_t size = 0;
  size_t capacity = 0;
  HostVector<uint64_t> keys;
  HostVector<uint64_t> rows;
  HostVector<std::byte> values;     // row_width 1: a cell for each entry
  HostVector<std::byte> row_cells;  // row_width 1
  HostVector<RowRef> refs;          // wider rows

  size_t PositionOf(uint64_t key) const {
    return static_cast<size_t>(key & ((uint64_t{1} << position_bits) - 1));
  }
  bool SameRow(uint64_t a, uint64_t b) const {
    return ((a ^ b) >> position_bits) == 0 &&
           (drop == 0 || rows[PositionOf(a)] == rows[PositionOf(b)]);
  }
  uint64_t RowOf(uint64_t key) const {
    return drop > 0 ? rows[PositionOf(key)] : begin + (key >> position_bits);
  }
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_STATE_ENTRIES_H_

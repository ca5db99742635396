// Every size that decides speed and nothing else, in one place
// (measurements: docs/decisions/0004-cpu-plans.md).
#ifndef SPARSEAGG_CPU_STATE_TUNING_H_
#define SPARSEAGG_CPU_STATE_TUNING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sparseagg {

// Up to here one window does, without a sample and on one thread.
inline constexpr uint64_t kSmallEntries = uint64_t{1} << 14;

// Cells of a dense window: they fit in a core's second cache. The more cursors there are, the
// larger a window must be to be worth their visit.
inline constexpr size_t kDenseCellsMin = size_t{1} << 15;
inline constexpr size_t kDenseCellsMax = size_t{1} << 17;
inline constexpr uint64_t kEntriesPerVisit = 64;
// What a cursor will deliver is fetched while about this many entries before it are added.
inline constexpr uint64_t kEntriesAhead = 64;
// The same for rows of several values that lie apart.
inline constexpr size_t kRowsAhead = 24;
// A window is dense while an entry is expected for this many rows.
inline constexpr double kDenseRowsPerEntry = 8;
// The same for rows of several values: their cells are read and written for each entry, and a
// cursor has something to read in one go when the window is large.
inline constexpr size_t kWideCells = size_t{1} << 14;
inline constexpr double kWideRowsPerEntry = 0.5;

// Entries of a sparse window: sorted in a core's second cache; rows of several values, which pass
// through it meanwhile, leave less of it. More where there are so many cursors that they would
// deliver few entries each.
constexpr uint64_t SparseEntriesMin(uint32_t width) { return uint64_t{1} << (width > 1 ? 13 : 15); }
inline constexpr uint64_t kSparseEntriesMax = uint64_t{1} << 16;
constexpr uint64_t SparseEntriesFor(uint64_t cursors, uint32_t width) {
  constexpr uint64_t kPerVisit = 32;
  return std::clamp(kPerVisit * cursors, SparseEntriesMin(width), kSparseEntriesMax);
}

// Of a slice of a dense state, which is emptied and looked through as a whole when it holds rows.
inline constexpr uint64_t kSliceCells = uint64_t{1} << 17;

// Windows that entries are distributed over: few enough that the ends of all of them stay cached.
inline constexpr size_t kPartitionCells = size_t{1} << 17;
inline constexpr uint64_t kPartitionWindows = 1024;

// Results from this size on are written past the caches: before they are sent they have left them.
// A block of them, one row at least, is put together in the second cache.
inline constexpr size_t kStreamedResultsMin = size_t{16} << 20;
inline constexpr size_t kStreamedRowBytesMax = size_t{64} << 10;

// A sample of the rows decides where windows begin.
inline constexpr uint64_t kEntriesPerSample = 128;
inline constexpr uint64_t kSamplesMax = uint64_t{1} << 16;

// Tasks of a reduction, so that uneven ones even out.
inline constexpr uint32_t kRangesPerThread = 4;
inline constexpr uint64_t kEntriesPerEnter =
    64;  // of a cursor, for each task that it takes part in

// Rows of at least this width are counted before they are reduced.
inline constexpr uint32_t kCountedWidth = 8;

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_STATE_TUNING_H_

// Every size that affects only speed, in one place (measurements:
// docs/decisions/0004-cpu-plans.md).
#ifndef SPARSEAGG_CPU_STATE_TUNING_H_
#define SPARSEAGG_CPU_STATE_TUNING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sparseagg {

// Up to this many entries, a reduction takes one window, without a sample, on one thread.
inline constexpr uint64_t kSmallEntries = uint64_t{1} << 14;

// Cells of a dense window: they fit in a core's second-level cache. The more cursors there are, the
// larger a window must be to be worth their visit.
inline constexpr size_t kDenseCellsMin = size_t{1} << 15;
inline constexpr size_t kDenseCellsMax = size_t{1} << 17;
inline constexpr uint64_t kEntriesPerVisit = 64;
// The entries of a cursor are prefetched while about this many entries before them are added.
inline constexpr uint64_t kEntriesAhead = 64;
// The same for rows of several values that lie apart.
inline constexpr size_t kRowsAhead = 24;
// A window is dense if at least one entry is expected for this many rows.
inline constexpr double kDenseRowsPerEntry = 8;
// The same for rows of several values: their cells are read and written for each entry, and in a
// large window a cursor has several rows to read in sequence.
inline constexpr size_t kWideCells = size_t{1} << 14;
inline constexpr double kWideRowsPerEntry = 0.5;

// Entries of a sparse window: they are sorted in a core's second-level cache. Rows of several
// values pass through that cache meanwhile and leave less of it. There are more where many cursors
// would deliver few entries each.
constexpr uint64_t SparseEntriesMin(uint32_t width) { return uint64_t{1} << (width > 1 ? 13 : 15); }
inline constexpr uint64_t kSparseEntriesMax = uint64_t{1} << 16;
constexpr uint64_t SparseEntriesFor(uint64_t cursors, uint32_t width) {
  constexpr uint64_t kPerVisit = 32;
  return std::clamp(kPerVisit * cursors, SparseEntriesMin(width), kSparseEntriesMax);
}

// Cells of a slice of a dense state, which is cleared and scanned as a whole when it holds rows.
inline constexpr uint64_t kSliceCells = uint64_t{1} << 17;

// Windows that entries are distributed over: few enough that the write positions of all of them
// stay cached.
inline constexpr size_t kPartitionCells = size_t{1} << 17;
inline constexpr uint64_t kPartitionWindows = 1024;

// Results of at least this many bytes are written with non-temporal stores: they would have left
// the caches before they are sent. A block of them, at least one row, is assembled in the
// second-level cache.
inline constexpr size_t kStreamedResultsMin = size_t{16} << 20;
inline constexpr size_t kStreamedRowBytesMax = size_t{64} << 10;

// A sample of the rows decides where windows begin.
inline constexpr uint64_t kEntriesPerSample = 128;
inline constexpr uint64_t kSamplesMax = uint64_t{1} << 16;

// Ranges of a reduction, more than threads so that uneven ranges balance out.
inline constexpr uint32_t kRangesPerThread = 4;
inline constexpr uint64_t kEntriesPerRange = 64;  // of a cursor, for each range that it enters

// Rows of at least this width are counted before they are reduced.
inline constexpr uint32_t kCountedWidth = 8;

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_STATE_TUNING_H_

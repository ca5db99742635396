// Copies with non-temporal (streaming) stores, for data that is written now and read much later:
// entries on their way from the network to the memory where they wait, and large results. Many
// megabytes pass through the caches before that data is read, and an ordinary copy, which first
// reads each line of the destination, takes twice as long. Unless a function says otherwise, other
// threads may read what it has written as after any other store. The build selects the source file
// of its processor; without non-temporal stores these are ordinary copies.
#ifndef SPARSEAGG_SPARSE_STREAMING_H_
#define SPARSEAGG_SPARSE_STREAMING_H_

#include <cstdint>

#include "sparse/rows/row_flags.h"

namespace sparseagg {

// Smaller arrays may still be in a cache when they are read.
inline constexpr uint64_t kStreamBytesMin = uint64_t{1} << 20;

// Copies `count` values from `from`, which need not be aligned. Returns true when all of them are
// known to be finite; false when one is not, or when this processor's version does not check.
bool StreamFloats(const char* from, uint64_t count, float* to);

// Copies `lines` cache lines of 64 bytes to `to`, which is 64-byte aligned. Other threads may read
// them only after this thread has called FinishNonTemporalStores().
void StoreLinesNonTemporal(const void* from, uint64_t lines, void* to);
void FinishNonTemporalStores();

// CopyRows() (sparse/rows/row_flags.h) with streaming stores. Index is int32_t or int64_t, Row is
// uint64_t or uint16_t.
template <class Index, class Row>
void StreamRows(const char* from, uint64_t count, uint64_t highest, uint64_t last, Row* rows,
                RowFlags& flags);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_STREAMING_H_

// What is written now and read much later - entries on their way from the network to memory where
// they wait, large results: many megabytes will pass through the caches before that, and a copy
// that reads each line of the destination first takes twice as long. Unless it says otherwise,
// other threads may read what a function has written as after any write. The build takes the source
// of its processor; where that cannot write past the caches, these are ordinary copies.
#ifndef SPARSEAGG_SPARSE_STREAMING_H_
#define SPARSEAGG_SPARSE_STREAMING_H_

#include <cstdint>

#include "sparse/rows/rows_seen.h"

namespace sparseagg {

// Below this, memory may still be in a cache when it is read.
inline constexpr uint64_t kStreamBytesMin = uint64_t{1} << 20;

// Copies `count` values from `from`, which need not be aligned. True: all of them are finite;
// false: one is not, or nobody has looked.
bool StreamFloats(const char* from, uint64_t count, float* to);

// Copies `lines` lines of 64 bytes to `to`, which is aligned to them. Other threads may read them
// after EndStream() only.
void StreamLines(const void* from, uint64_t lines, void* to);
void EndStream();

// CopyRows() of int32_t or int64_t, to uint64_t or uint16_t.
template <class Index, class Row>
void StreamRows(const char* from, uint64_t count, uint64_t highest, uint64_t last, Row* rows,
                RowsSeen& seen);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_STREAMING_H_

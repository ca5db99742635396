// Entries on their way from the network to memory where they wait: many megabytes will pass through
// the caches before they are read, and a copy that reads each line of the destination first takes
// twice as long. Other threads may read them as after any write. The build takes the source of its
// processor; where that cannot write past the caches, these are ordinary copies.
#ifndef SPARSEAGG_SPARSE_STREAMING_H_
#define SPARSEAGG_SPARSE_STREAMING_H_

#include <cstdint>

#include "sparse/rows_seen.h"

namespace sparseagg {

// Below this, memory may still be in a cache when it is read.
inline constexpr uint64_t kStreamBytesMin = uint64_t{1} << 20;

// Copies `count` values from `from`, which need not be aligned. True: all of them are finite;
// false: one is not, or nobody has looked.
bool StreamFloats(const char* from, uint64_t count, float* to);

// CopyRows() of int32_t or int64_t, to uint64_t or uint16_t.
template <class Index, class Row>
void StreamRows(const char* from, uint64_t count, uint64_t highest, uint64_t last, Row* rows,
                RowsSeen& seen);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_STREAMING_H_

// Values on their way from the network to memory where they wait: many megabytes will pass through
// the caches before they are read, and a copy that reads each line of the destination first takes
// twice as long.
#ifndef SPARSEAGG_SPARSE_STREAM_FLOATS_H_
#define SPARSEAGG_SPARSE_STREAM_FLOATS_H_

#include <cstdint>

namespace sparseagg {

// Copies `count` values from `from`, which need not be aligned, past the caches where the processor
// can. True: all of them are finite; false: one is not, or nobody has looked. Other threads may
// read them as after any write. The build takes the source of its processor.
bool StreamFloats(const char* from, uint64_t count, float* to);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_STREAM_FLOATS_H_

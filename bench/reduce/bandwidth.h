// The machine's own limit, measured in the same run as what is compared with it.
#ifndef SPARSEAGG_BENCH_REDUCE_BANDWIDTH_H_
#define SPARSEAGG_BENCH_REDUCE_BANDWIDTH_H_

#include <cstddef>
#include <cstdint>

namespace sparseagg::bench {

// Bytes a second of reading `bytes` of memory front to back with `threads` threads: the best of
// several passes. Starts threads: call it in a child.
double ReadBandwidth(uint32_t threads, size_t bytes);

}  // namespace sparseagg::bench

#endif  // SPARSEAGG_BENCH_REDUCE_BANDWIDTH_H_

// Measuring in a process of its own, so that peak memory, warm caches of the allocator and threads
// of one contender are nobody else's.
#ifndef SPARSEAGG_BENCH_REDUCE_CHILD_H_
#define SPARSEAGG_BENCH_REDUCE_CHILD_H_

#include <cstdint>
#include <functional>

#include "bench/report_file.h"

namespace sparseagg::bench {

// Runs `measure` in a forked child and returns its row. Where the machine's memory is not enough,
// or the child dies, the row is {"skipped": why}. REQUIRES: this process has one thread.
Row InChild(const std::function<Row()>& measure);

// Resident memory of this process now, in bytes.
uint64_t ResidentBytes();

// Its peak since the last ResetPeak().
uint64_t PeakResidentBytes();
void ResetPeak();

}  // namespace sparseagg::bench

#endif  // SPARSEAGG_BENCH_REDUCE_CHILD_H_

// What the plans of the CUDA back end cost, from a device's rates. Pure.
#ifndef SPARSEAGG_CUDA_COST_MODEL_H_
#define SPARSEAGG_CUDA_COST_MODEL_H_

#include <string_view>

#include "sparse/planner.h"

namespace sparseagg::gpu {

// The rates that decide a device's speed. The defaults are an H200's: published measurements of
// its parts and of its relatives (docs/decisions/0009-gpu-plans.md); calibration.h measures.
struct DeviceRates {
  double copy_bytes = 4.3e12;    // bytes a second, read and written
  double bus_bytes = 55e9;       // to the device, from page-locked memory
  double bus_back_bytes = 55e9;  // to the host
  double sort_words = 121e9;     // words of 64 bits a second and pass of 8 bits
  double sort_pairs = 38e9;      // pairs of 64 and 32 bits
  double pass_seconds = 15e-6;   // the least that a pass takes
  double cached_adds = 80e9;     // atomic adds of 64 bits a second to memory that is cached
  double memory_adds = 22e9;     // the same, random, beyond the cache
  double shared_adds = 400e9;    // of products to slots in shared memory, all multiprocessors
  double launch_seconds = 4e-6;  // of a kernel, with what is between two
  double cache_bytes = 48e6;     // of the second cache, what can be used
};

// From entries on the device to slots there, without the bus: what bench/gpu measures.
double ReduceSeconds(const DeviceRates& rates, std::string_view plan, const ReduceSpec& spec,
                     const Workload& workload);

// The same from entries to results, of "row_reduce" where the batch is the whole round.
double RoundRowsSeconds(const DeviceRates& rates, const ReduceSpec& spec, const Workload& workload);

// From the first entry in page-locked memory to the result on the host.
PlanCost CudaCost(const DeviceRates& rates, std::string_view plan, const ReduceSpec& spec,
                  const Workload& workload);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_COST_MODEL_H_

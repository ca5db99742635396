// From exact slots to results: each rounded once.
#ifndef SPARSEAGG_CUDA_KERNELS_FINALIZE_H_
#define SPARSEAGG_CUDA_KERNELS_FINALIZE_H_

#include <cstdint>
#include <string_view>

#include "cuda/slot_run.h"

namespace sparseagg::gpu {

// Rows [size] whose slots are not all there is: their results are made elsewhere.
struct ExceptRows {
  const uint64_t* rows = nullptr;  // device memory, strictly ascending
  uint64_t size = 0;
};

// What happened in a finalization; in device memory, zeroed and kNone first.
struct FinalizeOutcome {
  static constexpr uint64_t kNone = ~uint64_t{0};
  uint64_t infinite_values = 0;
  uint64_t overflow_at = kNone;  // the first of size * result width values that is out of range
};

struct Finalization {
  std::string_view op;
  SlotRule rule;
  double total_weight = 0;
  uint32_t result_width = 1;
};

// values [run.size, result_width] of the result's type, in device memory; not for `except`.
void FinalizeRun(Queue& queue, const Finalization& finalization, const SlotRun& run,
                 const ExceptRows& except, void* values, FinalizeOutcome* outcome);

// The slots of `rows` [size]: slots [size, slots()]. REQUIRES: the run has all of them.
void GatherSlots(Queue& queue, const SlotRule& rule, const SlotRun& run, const uint64_t* rows,
                 uint64_t size, Int128* slots);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_FINALIZE_H_

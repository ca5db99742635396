// In and out: numbers [size], or slots [size, slots()] with keys [size]. One pass (decoupled
// look-back, in CUB below Thrust), 16 bytes a number, 8 + 32 * slots() a position with a key.
#include <thrust/functional.h>
#include <thrust/scan.h>

#include "cuda/kernels/launch/scan.h"
#include "cuda/kernels/launch/thrust_policy.cuh"
#include "cuda/kernels/rows/row_of_slots.h"

namespace sparseagg::gpu {
namespace {

template <uint32_t kSlots>
void JoinRowsByKey(Queue& queue, const SlotRule& rule, const uint64_t* keys, Int128* slots,
                   uint64_t size) {
  auto* rows = reinterpret_cast<RowOfSlots<kSlots>*>(slots);
  QueueThrust(queue, "thrust::inclusive_scan_by_key", [&](const auto& policy) {
    thrust::inclusive_scan_by_key(policy, keys, keys + size, rows, rows,
                                  thrust::equal_to<uint64_t>(), JoinRows<kSlots>{rule});
  });
}

}  // namespace

void ExclusiveSum(Queue& queue, uint64_t* numbers, uint64_t size) {
  if (size == 0) return;
  QueueThrust(queue, "thrust::exclusive_scan", [&](const auto& policy) {
    thrust::exclusive_scan(policy, numbers, numbers + size, numbers, uint64_t{0});
  });
}

void JoinByKey(Queue& queue, const SlotRule& rule, const uint64_t* keys, Int128* slots,
               uint64_t size) {
  if (size == 0) return;
  rule.slots() == 1 ? JoinRowsByKey<1>(queue, rule, keys, slots, size)
                    : JoinRowsByKey<2>(queue, rule, keys, slots, size);
}

}  // namespace sparseagg::gpu

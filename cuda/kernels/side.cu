// In: a batch. Out: side entries [*count], unordered.
//
// One thread a value: reads it, its weight and, seldom, its row: 2 to 8 bytes a value. A product
// outside the window takes an atomic add on one counter; a batch of nothing else serialises there,
// and that costs its sender's round only.
#include <algorithm>

#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/side.h"
#include "cuda/kernels/slots.cuh"

namespace sparseagg::gpu {
namespace {

// Side entries are few; there is memory for one in this number of values, within these
// bounds.
constexpr uint64_t kSideShare = 64;
constexpr uint64_t kSideCapacityMin = 256;
constexpr uint64_t kSideCapacityMax = uint64_t{1} << 16;

template <class V>
struct Extract {
  BatchView batch;
  int32_t lsb;
  uint64_t begin;
  SideEntry* entries;
  uint64_t capacity;
  uint64_t* count;

  SPARSEAGG_DEVICE void operator()(uint64_t k) const {
    const uint64_t i = begin + k;
    const uint64_t e = i / batch.width;
    const auto c = static_cast<uint32_t>(i % batch.width);
    const UpdateRef& update = batch.updates[SourceOf(batch, e)];
    const uint64_t own = e - update.first;
    const double product = Lift(ValueAt<V>(update, own, batch.width, c), update.weight);
    Int128 fixed;
    if (ToFixed(product, lsb, &fixed)) return;
    const uint64_t at = AtomicAdd(count, uint64_t{1});
    if (at >= capacity) return;
    const Scaled parts = Decompose(product);
    entries[at] = {update.rows[own], c, parts.exponent, parts.significand};
  }
};

}  // namespace

void ExtractSide(Queue& queue, const BatchView& batch, const SlotRule& rule, uint64_t begin,
                 uint64_t end, const SideList& list) {
  queue.Fill(list.count.data(), 0, 1);
  WithValueType(rule.type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    if constexpr (ValueTraits<V>::kFloating) {
      ForEach(queue, end - begin,
              Extract<V>{batch, rule.lsb, begin, list.entries.data(), list.entries.size(),
                         list.count.data()});
    }
  });
}

SideList MakeSideList(Queue& queue, const BatchView& batch) {
  const uint64_t values = batch.nnz * batch.width;
  const uint64_t capacity = std::clamp(values / kSideShare, kSideCapacityMin, kSideCapacityMax);
  SideList list{{queue, std::min(capacity, values)}, {queue, 1}};
  queue.Fill(list.count.data(), 0, 1);
  return list;
}

SideList ListSide(Queue& queue, const BatchView& batch, const SlotRule& rule) {
  SideList list = MakeSideList(queue, batch);
  ExtractSide(queue, batch, rule, 0, batch.nnz * batch.width, list);
  return list;
}

}  // namespace sparseagg::gpu

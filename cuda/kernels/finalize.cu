// In: a run, rows [size] and slots [size, slots()]. Out: values [size, result width].
//
// One thread a result: reads 16 bytes, and 16 more for a row slot, writes one value. Integer
// arithmetic of some hundred instructions (sparse/float_format.h).
#include <type_traits>

#include "cuda/kernels/finalize.h"
#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/launch/search.cuh"
#include "sparse/ops/all.h"
#include "sparse/slot_math.h"

namespace sparseagg::gpu {
namespace {

template <class Op, class V>
struct Finalize {
  SlotRule rule;
  double total_weight;
  uint32_t width;  // of the result
  const uint64_t* rows;
  const Int128* slots;
  ExceptRows except;
  ResultValue<Op, V>* values;
  FinalizeOutcome* outcome;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint64_t r = i / width;
    const uint64_t c = i % width;
    if (except.size != 0) {
      const uint64_t at = LowerBound(except.rows, except.size, rows[r]);
      if (at < except.size && except.rows[at] == rows[r]) return;
    }
    const Int128* row = slots + r * rule.slots();
    const SlotValue value{row[c], rule.lsb};
    const SlotValue row_slot{row[rule.slots() - 1], rule.lsb};
    switch (FinalizeValue<Op, V>(value, row_slot, total_weight, rule.overflow, &values[i])) {
      case Finalized::kOk:
        break;
      case Finalized::kInfinite:
        AtomicAdd(&outcome->infinite_values, uint64_t{1});
        break;
      case Finalized::kOverflow:
        AtomicMin(&outcome->overflow_at, i);
        break;
    }
  }
};

struct Gather {
  uint32_t width;
  const uint64_t* run_rows;
  uint64_t run_size;
  const Int128* run_slots;
  const uint64_t* rows;
  Int128* slots;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint64_t at = LowerBound(run_rows, run_size, rows[i / width]);
    slots[i] = run_slots[at * width + i % width];
  }
};

}  // namespace

void FinalizeRun(Queue& queue, const Finalization& finalization, const SlotRun& run,
                 const ExceptRows& except, void* values, FinalizeOutcome* outcome) {
  AllOps::With(finalization.op, [&](auto op) {
    WithValueType(finalization.rule.type, [&](auto tag) {
      using Op = decltype(op);
      // A count does not look at values: one kernel for all types.
      using V = std::conditional_t<Op::kValues == ValueSlots::kNone, uint64_t,
                                   typename decltype(tag)::type>;
      ForEach(queue, run.size * finalization.result_width,
              Finalize<Op, V>{finalization.rule, finalization.total_weight,
                              finalization.result_width, run.rows.data(), run.slots.data(), except,
                              static_cast<ResultValue<Op, V>*>(values), outcome});
    });
  });
}

void GatherSlots(Queue& queue, const SlotRule& rule, const SlotRun& run, const uint64_t* rows,
                 uint64_t size, Int128* slots) {
  ForEach(queue, size * rule.slots(),
          Gather{rule.slots(), run.rows.data(), run.size, run.slots.data(), rows, slots});
}

}  // namespace sparseagg::gpu

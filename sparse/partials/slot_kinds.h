// What the slots of an operator are on the wire. For the writer and the reader of slices only.
#ifndef SPARSEAGG_SPARSE_PARTIALS_SLOT_KINDS_H_
#define SPARSEAGG_SPARSE_PARTIALS_SLOT_KINDS_H_

#include <cstdint>

#include "sparse/ops/all.h"
#include "sparse/partials/blocks.h"
#include "sparse/types.h"

namespace sparseagg {

struct SlotKinds {
  uint64_t values = 0;  // value slots of a row
  bool row_slot = false;
  bool counts = false;   // the row slot is a number of contributors
  bool extreme = false;  // min, max
  BlockKind value_blocks;

  uint64_t stride() const { return values + (row_slot ? 1 : 0); }
};

inline SlotKinds KindsOf(const ReduceSpec& spec) {
  SlotKinds kinds;
  AllOps::With(spec.op, [&](auto op) {
    using Op = decltype(op);
    kinds.values = Op::kValues == ValueSlots::kNone ? 0 : spec.layout.row_width;
    kinds.row_slot = Op::kRowSlot != RowSlot::kNone;
    kinds.counts = Op::kRowSlot == RowSlot::kOne;
    kinds.extreme = kNeedsUniqueRows<Op>;
  });
  kinds.value_blocks = {.raw = spec.layout.value_type, .only_raw = kinds.extreme};
  return kinds;
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_PARTIALS_SLOT_KINDS_H_

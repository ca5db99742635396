// Adds entries to exact slots: the inner loops of every plan of the CPU back end.
#ifndef SPARSEAGG_CPU_SLOT_WRITER_H_
#define SPARSEAGG_CPU_SLOT_WRITER_H_

#include <cstdint>
#include <vector>

#include "sparse/partial.h"
#include "sparse/slot_math.h"
#include "sparse/values.h"
#include "sparse/window.h"

namespace sparseagg {

// Columns [begin, end) of a row's values.
struct Columns {
  uint32_t begin = 0;
  uint32_t end = 0;
};

template <class Op, class V>
class SlotWriter {
 public:
  // `side` takes what the window at `lsb` does not hold.
  SlotWriter(const ReduceSpec& spec, int32_t lsb, std::vector<SideEntry>& side)
      : lsb_(lsb),
        row_slot_(SlotsPerRow(spec) - 1),
        overflow_(spec.integer_overflow),
        side_(side) {}

  // Exact sums: adds weight * values[c] to slots[c].
  void AddEntry(uint64_t row, const V* values, float weight, Columns columns, Int128* slots) {
    for (uint32_t c = columns.begin; c < columns.end; ++c)
      AddTo(row, c, Lift(values[c], weight), slots);
  }

  // The row slot: one more contributor holds the row.
  void AddHolder(uint64_t row, float weight, Int128* slots) {
    if constexpr (Op::kRowSlot == RowSlot::kWeight && ValueTraits<V>::kFloating) {
      AddTo(row, row_slot_, static_cast<double>(weight), slots);
    } else if constexpr (Op::kRowSlot != RowSlot::kNone) {
      slots[row_slot_] += Op::kRowSlot == RowSlot::kWeight ? static_cast<Int128>(weight) : 1;
    }
  }

  // min, max: `count` entries of one contributor, entry(i) the values of the i-th.
  template <class EntryAt>
  void AddContribution(uint32_t count, const EntryAt& entry, Columns columns, Int128* slots) {
    for (uint32_t c = columns.begin; c < columns.end; ++c) {
      slots[c] = CombineSlots<Op>(slots[c], Contribution(count, entry, c));
    }
  }

 private:
  void AddTo(uint64_t row, uint32_t column, WideValue<V> addend, Int128* slots) {
    if constexpr (ValueTraits<V>::kFloating) {
      Int128 fixed;
      if (ToFixed(addend, lsb_, &fixed)) [[likely]] {
        slots[column] += fixed;
      } else {
        const Scaled parts = TakeApart(addend);
        side_.push_back({row, column, parts.exponent, parts.significand});
      }
    } else {
      slots[column] += addend;
    }
  }

  template <class EntryAt>
  Int128 Contribution(uint32_t count, const EntryAt& entry, uint32_t column) const {
    if constexpr (ValueTraits<V>::kFloating) {
      if (count == 1) return ContributionKey(Widen(entry(0)[column]));
      WideInteger sum;
      for (uint32_t i = 0; i < count; ++i) sum.Add(Widen(entry(i)[column]));
      return ContributionKey(sum.Round(ValueTraits<V>::kFormat));
    } else {
      Int128 sum = 0;
      for (uint32_t i = 0; i < count; ++i) sum += static_cast<Int128>(entry(i)[column]);
      return ContributionKey<V>(sum, overflow_);
    }
  }

  int32_t lsb_;
  uint32_t row_slot_;
  IntegerOverflow overflow_;
  std::vector<SideEntry>& side_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_SLOT_WRITER_H_

// Turns an exact state into the result, every value rounded once, in parallel over rows.
#ifndef SPARSEAGG_CPU_LOWER_H_
#define SPARSEAGG_CPU_LOWER_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "cpu/parallel.h"
#include "sparse/backend.h"
#include "sparse/partial.h"
#include "sparse/slot_math.h"
#include "sparse/wide_integer.h"

namespace sparseagg {

inline constexpr size_t kLowerRows = 1 << 14;  // rows of one task

template <class Op, class V>
class Lowering {
 public:
  using R = ResultValue<Op, V>;

  Lowering(const Partial& state, SparseTensor& out)
      : state_(state),
        width_(SlotsPerRow(state.spec)),
        result_width_(out.layout.row_width),
        total_weight_(state.total_weight.ToDouble()),
        values_(reinterpret_cast<R*>(out.values.data())) {}

  // Lowers rows [begin, end). Counts infinities; stops at the first integer that does not fit.
  absl::Status Rows(size_t begin, size_t end, uint64_t& infinite_values) {
    auto side = std::lower_bound(
        state_.side.begin(), state_.side.end(), begin < end ? state_.rows[begin] : 0,
        [](const SideEntry& entry, uint64_t row) { return entry.row < row; });
    for (size_t i = begin; i < end; ++i) {
      const uint64_t row = state_.rows[i];
      const auto side_begin = side;
      while (side != state_.side.end() && side->row == row) ++side;
      for (uint32_t c = 0; c < result_width_; ++c) {
        const Lowered lowered =
            side_begin == side ? FromSlots(i, c) : WithSide(i, c, side_begin, side);
        if (lowered == Lowered::kOverflow) return IntegerOverflowError(state_.spec, row, c);
        infinite_values += lowered == Lowered::kInfinite ? 1 : 0;
      }
    }
    return absl::OkStatus();
  }

 private:
  using SideAt = std::vector<SideEntry>::const_iterator;

  Lowered FromSlots(size_t i, uint32_t c) {
    const Int128* slots = state_.slots.data() + i * width_;
    const SlotValue value{slots[c], state_.lsb};
    const SlotValue row{slots[width_ - 1], state_.lsb};
    return LowerValue<Op, V>(value, row, total_weight_, state_.spec.integer_overflow, Out(i, c));
  }

  // Some slots of this row have parts outside the window.
  Lowered WithSide(size_t i, uint32_t c, SideAt begin, SideAt end) {
    const WideInteger value = Exact(i, c, begin, end);
    const WideInteger row =
        Op::kRowSlot == RowSlot::kNone ? value : Exact(i, width_ - 1, begin, end);
    return LowerValue<Op, V>(value, row, total_weight_, state_.spec.integer_overflow, Out(i, c));
  }

  WideInteger Exact(size_t i, uint32_t slot, SideAt begin, SideAt end) const {
    WideInteger sum;
    sum.AddScaled(state_.slots[i * width_ + slot], state_.lsb);
    const auto below = [](const SideEntry& entry, uint32_t column) {
      return entry.column < column;
    };
    for (auto s = std::lower_bound(begin, end, slot, below); s != end && s->column == slot; ++s) {
      sum.AddScaled(s->significand, s->exponent);
    }
    return sum;
  }

  R* Out(size_t i, uint32_t c) { return values_ + i * result_width_ + c; }

  const Partial& state_;
  const uint32_t width_;
  const uint32_t result_width_;
  const double total_weight_;
  R* values_;
};

template <class Op, class V>
absl::StatusOr<Aggregate> LowerState(Partial state, Parallel& parallel) {
  Aggregate result;
  SparseTensor& tensor = result.tensor;
  tensor.layout = ResultLayout(state.spec);
  const size_t rows = state.rows.size();
  tensor.values.resize(rows * tensor.layout.row_bytes());
  Lowering<Op, V> lowering(state, tensor);
  const size_t tasks = (rows + kLowerRows - 1) / kLowerRows;
  std::vector<absl::Status> statuses(tasks);
  std::vector<uint64_t> infinite(tasks, 0);
  parallel.For(tasks, [&](size_t t) {
    statuses[t] = lowering.Rows(t * kLowerRows, std::min(rows, (t + 1) * kLowerRows), infinite[t]);
  });
  // The first error in order of rows, whatever thread met one first.
  for (size_t t = 0; t < tasks; ++t) {
    if (!statuses[t].ok()) return statuses[t];
    result.infinite_values += infinite[t];
  }
  tensor.indices = std::move(state.rows);
  return result;
}

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_LOWER_H_

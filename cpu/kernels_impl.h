// The definition of KernelsFor(), for the two sources that instantiate it.
#ifndef SPARSEAGG_CPU_KERNELS_IMPL_H_
#define SPARSEAGG_CPU_KERNELS_IMPL_H_

#include "cpu/kernels.h"
#include "cpu/lower_rows.h"
#include "cpu/slot_writer.h"
#include "sparse/ops/all.h"

namespace sparseagg {

inline constexpr uint64_t kWindowSamples = 4096;

template <class Op, class V>
std::vector<double> SampleProducts(const ReduceSpec& spec, std::span<const PendingUpdate> batch) {
  std::vector<double> samples;
  if constexpr (ValueTraits<V>::kFloating && Op::kValues == ValueSlots::kExactSum) {
    const uint64_t width = spec.layout.row_width;
    uint64_t total = 0;
    for (const PendingUpdate& update : batch) total += update.staged.entries.nnz * width;
    const uint64_t stride = total / kWindowSamples + 1;
    uint64_t next = 0;   // position of the next sample, counted over the whole batch
    uint64_t first = 0;  // position of the update's first value
    for (const PendingUpdate& update : batch) {
      const uint64_t size = update.staged.entries.nnz * width;
      const auto* values = static_cast<const V*>(update.staged.entries.values);
      for (; next < first + size; next += stride) {
        samples.push_back(Lift(values[next - first], update.weight));
      }
      first += size;
      if (Op::kRowSlot == RowSlot::kWeight) samples.push_back(update.weight);
    }
  }
  return samples;
}

template <class Op, class V>
void SumRuns(const FoldContext& context, std::span<const Piece> pieces,
             std::span<const EntryKey> keys, Partial& out) {
  SlotWriter<Op, V> writer(context.spec, context.lsb, out.side);
  const uint32_t width = SlotsPerRow(context.spec);
  const uint32_t row_width = context.spec.layout.row_width;
  const Columns all{0, row_width};
  const auto values = [&](const EntryKey& key) {
    const Piece& piece = pieces[key.piece];
    const void* update = context.batch[piece.update].staged.entries.values;
    return static_cast<const V*>(update) + piece.Entry(key.at) * row_width;
  };
  for (size_t i = 0; i < keys.size();) {
    const uint64_t row = keys[i].row;
    if (out.rows.empty() || out.rows.back() != row) {
      out.rows.push_back(row);
      out.slots.resize(out.slots.size() + width, EmptySlot<Op>());
    }
    Int128* slots = out.slots.data() + out.slots.size() - width;
    // The entries of one contributor in this row.
    const uint32_t update = pieces[keys[i].piece].update;
    size_t end = i + 1;
    while (end < keys.size() && keys[end].row == row && pieces[keys[end].piece].update == update) {
      ++end;
    }
    const float weight = context.batch[update].weight;
    if constexpr (kPerUpdate<Op>) {
      writer.AddContribution(
          static_cast<uint32_t>(end - i), [&](uint32_t k) { return values(keys[i + k]); }, all,
          slots);
    }
    if constexpr (Op::kValues == ValueSlots::kExactSum) {
      for (size_t k = i; k < end; ++k) writer.AddEntry(row, values(keys[k]), weight, all, slots);
    }
    writer.AddHolder(row, weight, slots);
    i = end;
  }
}

template <class Op, class V>
void FoldUpdate(const FoldContext& context, uint32_t u, const Piece* piece, uint64_t number,
                const SlotRectangle& task, const DenseSlots& dense, std::vector<SideEntry>& side) {
  SlotWriter<Op, V> writer(context.spec, context.lsb, side);
  const CooView entries = context.batch[u].staged.entries.view();
  const float weight = context.batch[u].weight;
  const auto* values = static_cast<const V*>(entries.values);
  const uint64_t row_width = context.spec.layout.row_width;
  const uint32_t width = SlotsPerRow(context.spec);
  const Columns columns{task.column_begin, task.column_end};
  for (uint64_t i = 0; i < entries.nnz; ++i) {
    const uint64_t entry = piece == nullptr ? i : piece->Entry(static_cast<uint32_t>(i));
    const uint64_t row = entries.indices[entry];
    if (row < task.row_begin || row >= task.row_end) continue;
    Int128* slots = dense.slots + row * width;
    if constexpr (Op::kValues == ValueSlots::kExactSum) {
      writer.AddEntry(row, values + entry * row_width, weight, columns, slots);
    }
    if constexpr (kPerUpdate<Op>) {
      const auto entry_at = [&](uint64_t k) { return piece->Entry(static_cast<uint32_t>(k)); };
      uint64_t end = i + 1;
      while (end < entries.nnz && entries.indices[entry_at(end)] == row) ++end;
      writer.AddContribution(
          static_cast<uint32_t>(end - i),
          [&](uint32_t k) { return values + entry_at(i + k) * row_width; }, columns, slots);
      i = end - 1;
    }
    // The row's own state belongs to the task of its first column.
    if (task.column_begin == 0 && dense.last_holder[row] != number) {
      dense.last_holder[row] = number;
      writer.AddHolder(row, weight, slots);
    }
  }
}

template <class V>
const CpuKernels* KernelsFor(std::string_view op) {
  const CpuKernels* found = nullptr;
  AllOps::With(op, [&](auto tag) {
    using Op = decltype(tag);
    static constexpr CpuKernels kKernels = {&SampleProducts<Op, V>, &SumRuns<Op, V>,
                                            &FoldUpdate<Op, V>, &LowerRows<Op, V>, kPerUpdate<Op>};
    found = &kKernels;
  });
  return found;
}

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_KERNELS_IMPL_H_

// Plan "dense": one slot for every coordinate of the index space, kept over the whole round. For
// small index spaces and dense tensors; no sorting, memory is that of the index space.
//
// Each task owns a rectangle of the slots (rows x columns) and passes over all entries of the
// batch; so slots are written by one thread only, without atomics.
#ifndef SPARSEAGG_CPU_DENSE_PLAN_H_
#define SPARSEAGG_CPU_DENSE_PLAN_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "cpu/plan.h"
#include "cpu/slot_writer.h"

namespace sparseagg {

template <class Op, class V>
class DensePlan : public CpuPlan {
 public:
  DensePlan(const ReduceSpec& spec, Parallel& parallel)
      : spec_(spec),
        width_(SlotsPerRow(spec)),
        parallel_(parallel),
        tasks_(MakeTasks()),
        slots_(spec.layout.num_rows * width_, EmptySlot<Op>()),
        last_holder_(spec.layout.num_rows, 0) {}

  void Fold(std::span<const PendingUpdate> batch) override {
    MoveWindow(NextWindow(SampleProducts<Op, V>(spec_.layout, batch), has_window_, lsb_));
    const std::vector<Piece> pieces = SortPieces(batch);
    std::vector<std::vector<SideEntry>> sides(tasks_.size());
    parallel_.For(tasks_.size(), [&](size_t t) {
      SlotWriter<Op, V> writer(spec_, lsb_, sides[t]);
      for (uint32_t u = 0; u < batch.size(); ++u) {
        FoldUpdate(batch[u], pieces.empty() ? nullptr : &pieces[u], updates_ + u + 1, tasks_[t],
                   writer);
      }
    });
    updates_ += batch.size();
    for (const PendingUpdate& update : batch) addends_ += update.staged.entries.nnz;
    for (const auto& side : sides) side_.insert(side_.end(), side.begin(), side.end());
    SortSide();
  }

  void Merge(Partial partial) override {
    if (!has_window_) MoveWindow(partial.lsb);
    Rebase(partial, lsb_);
    ++updates_;
    for (size_t i = 0; i < partial.rows.size(); ++i) {
      Int128* slots = slots_.data() + partial.rows[i] * width_;
      for (uint32_t c = 0; c < width_; ++c)
        slots[c] = CombineSlots<Op>(slots[c], partial.slots[i * width_ + c]);
      last_holder_[partial.rows[i]] = updates_;
    }
    addends_ += partial.addends;
    side_.insert(side_.end(), partial.side.begin(), partial.side.end());
    SortSide();
  }

  Partial State() override {
    Partial state;
    state.spec = spec_;
    state.lsb = lsb_;
    state.addends = addends_;
    state.side = side_;
    for (uint64_t row = 0; row < last_holder_.size(); ++row) {
      if (last_holder_[row] != 0) state.rows.push_back(row);
    }
    state.slots.resize(state.rows.size() * width_);
    parallel_.For(tasks_.size(), [&](size_t t) {
      const size_t begin = t * state.rows.size() / tasks_.size();
      const size_t end = (t + 1) * state.rows.size() / tasks_.size();
      for (size_t i = begin; i < end; ++i) {
        std::copy_n(slots_.begin() + state.rows[i] * width_, width_,
                    state.slots.begin() + i * width_);
      }
    });
    return state;
  }

 private:
  struct Task {
    uint64_t row_begin;
    uint64_t row_end;
    Columns columns;
  };

  std::vector<Task> MakeTasks() const {
    const uint32_t threads = parallel_.threads();
    const TensorLayout& layout = spec_.layout;
    std::vector<Task> tasks;
    const bool by_rows = layout.num_rows >= threads;
    const uint64_t size = by_rows ? layout.num_rows : layout.row_width;
    const uint64_t count = std::min<uint64_t>(threads, size);
    for (uint64_t t = 0; t < count; ++t) {
      const uint64_t begin = size / count * t + std::min<uint64_t>(t, size % count);
      const uint64_t end = begin + size / count + (t < size % count ? 1 : 0);
      if (by_rows) {
        tasks.push_back({begin, end, {0, layout.row_width}});
      } else {
        tasks.push_back(
            {0, layout.num_rows, {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}});
      }
    }
    return tasks;
  }

  // min and max need a contributor's duplicates side by side: one sorted piece for each update.
  std::vector<Piece> SortPieces(std::span<const PendingUpdate> batch) {
    std::vector<Piece> pieces;
    if constexpr (kPerUpdate<Op>) {
      for (uint32_t u = 0; u < batch.size(); ++u) {
        pieces.push_back({u, 0, static_cast<uint32_t>(batch[u].staged.entries.nnz), {}});
      }
      parallel_.For(pieces.size(),
                    [&](size_t p) { SortPiece(batch[p].staged.entries.view(), pieces[p]); });
    }
    return pieces;
  }

  // `number` is this update's, different for each and never 0.
  void FoldUpdate(const PendingUpdate& update, const Piece* piece, uint64_t number,
                  const Task& task, SlotWriter<Op, V>& writer) {
    const CooView entries = update.staged.entries.view();
    const auto* values = static_cast<const V*>(entries.values);
    const uint64_t row_width = spec_.layout.row_width;
    for (uint64_t i = 0; i < entries.nnz; ++i) {
      const uint64_t entry = piece == nullptr ? i : piece->Entry(static_cast<uint32_t>(i));
      const uint64_t row = entries.indices[entry];
      if (row < task.row_begin || row >= task.row_end) continue;
      Int128* slots = slots_.data() + row * width_;
      if constexpr (Op::kValues == ValueSlots::kExactSum) {
        writer.AddEntry(row, values + entry * row_width, update.weight, task.columns, slots);
      }
      if constexpr (kPerUpdate<Op>) {
        uint64_t end = i + 1;
        while (end < entries.nnz &&
               entries.indices[piece->Entry(static_cast<uint32_t>(end))] == row)
          ++end;
        writer.AddContribution(
            static_cast<uint32_t>(end - i),
            [&](uint32_t k) {
              return values + piece->Entry(static_cast<uint32_t>(i + k)) * row_width;
            },
            task.columns, slots);
        i = end - 1;
      }
      // The row's own state belongs to the task of its first column.
      if (task.columns.begin == 0 && last_holder_[row] != number) {
        last_holder_[row] = number;
        writer.AddHolder(row, update.weight, slots);
      }
    }
  }

  void MoveWindow(int32_t lsb) {
    if (has_window_ && lsb != lsb_) {
      Partial state = State();
      Rebase(state, lsb);
      for (size_t i = 0; i < state.rows.size(); ++i) {
        std::copy_n(state.slots.begin() + i * width_, width_,
                    slots_.begin() + state.rows[i] * width_);
      }
      side_ = std::move(state.side);
    }
    lsb_ = lsb;
    has_window_ = true;
  }

  void SortSide() {
    std::sort(side_.begin(), side_.end(), [](const SideEntry& a, const SideEntry& b) {
      return a.row != b.row ? a.row < b.row : a.column < b.column;
    });
    CompactSide(side_);
  }

  const ReduceSpec spec_;
  const uint32_t width_;
  Parallel& parallel_;
  const std::vector<Task> tasks_;
  std::vector<Int128> slots_;  // [num_rows, width_]
  std::vector<uint64_t>
      last_holder_;  // [num_rows], number of the last update that held the row; 0: none
  uint64_t updates_ = 0;
  uint64_t addends_ = 0;
  bool has_window_ = false;
  int32_t lsb_ = 0;
  std::vector<SideEntry> side_;  // sorted
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_DENSE_PLAN_H_

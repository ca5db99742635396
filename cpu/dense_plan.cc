#include "cpu/dense_plan.h"

#include <algorithm>
#include <utility>

#include "cpu/window_choice.h"

namespace sparseagg {

DensePlan::DensePlan(const ReduceSpec& spec, const CpuKernels& kernels, Parallel& parallel)
    : spec_(spec),
      kernels_(kernels),
      parallel_(parallel),
      width_(SlotsPerRow(spec)),
      tasks_(MakeTasks()),
      slots_(spec.layout.num_rows * width_, EmptySlotOf(spec)),
      last_holder_(spec.layout.num_rows, 0) {}

void DensePlan::Fold(std::span<const PendingUpdate> batch) {
  MoveWindow(NextWindow(kernels_.sample_products(spec_, batch), has_window_, lsb_));
  const FoldContext context{spec_, lsb_, batch};
  const DenseSlots dense{slots_.data(), last_holder_.data()};
  const std::vector<Piece> pieces = SortUpdates(batch);
  std::vector<std::vector<SideEntry>> sides(tasks_.size());
  parallel_.For(tasks_.size(), [&](size_t t) {
    for (uint32_t u = 0; u < batch.size(); ++u) {
      const Piece* piece = pieces.empty() ? nullptr : &pieces[u];
      kernels_.fold_update(context, u, piece, updates_ + u + 1, tasks_[t], dense, sides[t]);
    }
  });
  updates_ += batch.size();
  for (const PendingUpdate& update : batch) addends_ += update.staged.entries.nnz;
  for (const auto& side : sides) side_.insert(side_.end(), side.begin(), side.end());
  SortSide(side_);
  CompactSide(side_);
}

void DensePlan::Merge(Partial partial) {
  if (!has_window_) MoveWindow(partial.lsb);
  Rebase(partial, lsb_);
  ++updates_;
  for (size_t i = 0; i < partial.rows.size(); ++i) {
    const uint64_t row = partial.rows[i];
    CombineRow(spec_, partial.slots.data() + i * width_, slots_.data() + row * width_);
    last_holder_[row] = updates_;
  }
  addends_ += partial.addends;
  side_.insert(side_.end(), partial.side.begin(), partial.side.end());
  SortSide(side_);
  CompactSide(side_);
}

Partial DensePlan::State() {
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

uint64_t DensePlan::MemoryBytes() const {
  return slots_.capacity() * sizeof(Int128) + last_holder_.capacity() * sizeof(uint64_t) +
         side_.capacity() * sizeof(SideEntry);
}

// Equal parts of the rows, or of the columns when there are fewer rows than threads.
std::vector<SlotRectangle> DensePlan::MakeTasks() const {
  const TensorLayout& layout = spec_.layout;
  const uint32_t threads = parallel_.threads();
  const bool by_rows = layout.num_rows >= threads;
  const uint64_t size = by_rows ? layout.num_rows : layout.row_width;
  const uint64_t count = std::min<uint64_t>(threads, size);
  std::vector<SlotRectangle> tasks;
  for (uint64_t t = 0; t < count; ++t) {
    const uint64_t begin = size / count * t + std::min<uint64_t>(t, size % count);
    const uint64_t end = begin + size / count + (t < size % count ? 1 : 0);
    if (by_rows) {
      tasks.push_back({begin, end, 0, layout.row_width});
    } else {
      tasks.push_back(
          {0, layout.num_rows, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    }
  }
  return tasks;
}

// min and max need a contributor's duplicates side by side: one sorted piece for each update.
std::vector<Piece> DensePlan::SortUpdates(std::span<const PendingUpdate> batch) {
  std::vector<Piece> pieces;
  if (!kernels_.per_update) return pieces;
  for (uint32_t u = 0; u < batch.size(); ++u) {
    pieces.push_back({u, 0, static_cast<uint32_t>(batch[u].staged.entries.nnz), {}});
  }
  parallel_.For(pieces.size(),
                [&](size_t p) { SortPiece(batch[p].staged.entries.view(), pieces[p]); });
  return pieces;
}

void DensePlan::MoveWindow(int32_t lsb) {
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

}  // namespace sparseagg

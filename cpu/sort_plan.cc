#include "cpu/sort_plan.h"

#include <algorithm>
#include <utility>

#include "cpu/window_choice.h"

namespace sparseagg {
namespace {

constexpr uint32_t kPieceEntries = 1 << 18;     // sorted by one thread, in its cache
constexpr uint64_t kRangeEntriesMin = 1 << 13;  // below this a task costs more than it brings
constexpr uint32_t kRangesPerThread = 8;        // so that uneven ranges even out
constexpr uint32_t kSamplesPerRange = 32;

// Position of the first entry of `piece`, in ascending order, whose row is at least `bound`.
uint32_t FirstAtLeast(const uint64_t* rows, const Piece& piece, uint64_t bound) {
  uint32_t begin = 0;
  uint32_t end = piece.size;
  while (begin < end) {
    const uint32_t middle = begin + (end - begin) / 2;
    if (rows[piece.Entry(middle)] < bound) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

bool KeyBefore(const EntryKey& a, const EntryKey& b) {
  if (a.row != b.row) return a.row < b.row;
  return a.piece != b.piece ? a.piece < b.piece : a.at < b.at;
}

}  // namespace

SortPlan::SortPlan(const ReduceSpec& spec, const CpuKernels& kernels, Parallel& parallel)
    : spec_(spec), kernels_(kernels), parallel_(parallel) {}

void SortPlan::Fold(std::span<const PendingUpdate> batch) {
  lsb_ = NextWindow(kernels_.sample_products(spec_, batch), has_window_, lsb_);
  has_window_ = true;
  const FoldContext context{spec_, lsb_, batch};
  const std::vector<Piece> pieces = SortPieces(batch);
  const std::vector<uint64_t> borders = Borders(batch, pieces);
  std::vector<Partial> ranges(borders.size() + 1);
  parallel_.For(ranges.size(), [&](size_t r) {
    const uint64_t low = r == 0 ? 0 : borders[r - 1];
    const uint64_t high = r == borders.size() ? kNumRowsMax : borders[r];
    ReduceRange(context, pieces, low, high, ranges[r]);
  });
  Partial folded = Concatenate(ranges);
  for (const PendingUpdate& update : batch) folded.addends += update.staged.entries.nnz;
  Merge(std::move(folded));
}

void SortPlan::Merge(Partial partial) {
  levels_.push_back(std::move(partial));
  while (levels_.size() > 1 &&
         levels_.back().rows.size() * 2 > levels_[levels_.size() - 2].rows.size()) {
    MergeTop();
  }
}

Partial SortPlan::State() {
  MergeAll();
  return levels_.back();
}

Partial SortPlan::TakeState() {
  MergeAll();
  return std::move(levels_.back());
}

uint64_t SortPlan::MemoryBytes() const {
  uint64_t bytes = 0;
  for (const Partial& level : levels_) bytes += sparseagg::MemoryBytes(level);
  return bytes;
}

void SortPlan::MergeAll() {
  while (levels_.size() > 1) MergeTop();
  if (levels_.empty()) levels_.push_back(Empty());
}

Partial SortPlan::Empty() const {
  Partial partial;
  partial.spec = spec_;
  partial.lsb = lsb_;
  return partial;
}

void SortPlan::MergeTop() {
  Partial top = std::move(levels_.back());
  levels_.pop_back();
  levels_.back() = MergePartials(std::move(levels_.back()), std::move(top));
}

std::vector<Piece> SortPlan::SortPieces(std::span<const PendingUpdate> batch) {
  std::vector<Piece> pieces;
  for (uint32_t u = 0; u < batch.size(); ++u) {
    const uint64_t nnz = batch[u].staged.entries.nnz;
    for (uint64_t begin = 0; begin < nnz; begin += kPieceEntries) {
      const auto size = static_cast<uint32_t>(std::min<uint64_t>(kPieceEntries, nnz - begin));
      pieces.push_back({u, begin, size, {}});
    }
  }
  parallel_.For(pieces.size(), [&](size_t p) {
    SortPiece(batch[pieces[p].update].staged.entries.view(), pieces[p]);
  });
  return pieces;
}

std::vector<uint64_t> SortPlan::Borders(std::span<const PendingUpdate> batch,
                                        std::span<const Piece> pieces) const {
  uint64_t entries = 0;
  for (const Piece& piece : pieces) entries += piece.size;
  const uint64_t ranges = std::min<uint64_t>(entries / kRangeEntriesMin + 1,
                                             uint64_t{kRangesPerThread} * parallel_.threads());
  const uint64_t stride = entries / (ranges * kSamplesPerRange) + 1;
  std::vector<uint64_t> samples;
  uint64_t skip = 0;
  for (const Piece& piece : pieces) {
    const uint64_t* rows = batch[piece.update].staged.entries.indices;
    uint64_t i = skip;
    for (; i < piece.size; i += stride) {
      samples.push_back(rows[piece.Entry(static_cast<uint32_t>(i))]);
    }
    skip = i - piece.size;
  }
  std::sort(samples.begin(), samples.end());
  std::vector<uint64_t> borders;
  for (uint64_t r = 1; r < ranges; ++r) borders.push_back(samples[r * samples.size() / ranges]);
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  return borders;
}

void SortPlan::ReduceRange(const FoldContext& context, std::span<const Piece> pieces, uint64_t low,
                           uint64_t high, Partial& out) const {
  std::vector<EntryKey> keys;
  for (uint32_t p = 0; p < pieces.size(); ++p) {
    const Piece& piece = pieces[p];
    const uint64_t* rows = context.batch[piece.update].staged.entries.indices;
    const uint32_t end = FirstAtLeast(rows, piece, high);
    for (uint32_t i = FirstAtLeast(rows, piece, low); i < end; ++i) {
      keys.push_back({rows[piece.Entry(i)], p, i});
    }
  }
  std::sort(keys.begin(), keys.end(), KeyBefore);
  kernels_.sum_runs(context, pieces, keys, out);
  SortSide(out.side);
  CompactSide(out.side);
}

Partial SortPlan::Concatenate(const std::vector<Partial>& ranges) {
  const uint32_t width = SlotsPerRow(spec_);
  std::vector<size_t> row_at(ranges.size() + 1, 0);
  std::vector<size_t> side_at(ranges.size() + 1, 0);
  for (size_t r = 0; r < ranges.size(); ++r) {
    row_at[r + 1] = row_at[r] + ranges[r].rows.size();
    side_at[r + 1] = side_at[r] + ranges[r].side.size();
  }
  Partial all = Empty();
  all.rows.resize(row_at.back());
  all.slots.resize(row_at.back() * width);
  all.side.resize(side_at.back());
  parallel_.For(ranges.size(), [&](size_t r) {
    const Partial& range = ranges[r];
    std::copy(range.rows.begin(), range.rows.end(), all.rows.begin() + row_at[r]);
    std::copy(range.slots.begin(), range.slots.end(), all.slots.begin() + row_at[r] * width);
    std::copy(range.side.begin(), range.side.end(), all.side.begin() + side_at[r]);
  });
  return all;
}

}  // namespace sparseagg

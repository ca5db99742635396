// Plan "sort": any workload, any index space. Memory and time grow with the entries, not with the
// index space.
//
//   1. cut the updates of the batch into pieces, sort each piece by row (canonical updates already
//   are);
//   2. sample rows for borders that split the entries evenly; each range of rows is one task;
//   3. a task gathers its entries from every piece by binary search, sorts them by (row, update)
//   and sums the runs;
//   4. the ranges, concatenated, are a partial aggregate. Partials are merged like the levels of a
//   log-structured tree,
//      so that every entry is merged O(log(batches)) times.
#ifndef SPARSEAGG_CPU_SORT_PLAN_H_
#define SPARSEAGG_CPU_SORT_PLAN_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "cpu/plan.h"
#include "cpu/slot_writer.h"

namespace sparseagg {

inline constexpr uint32_t kPieceEntries = 1 << 18;  // sorted by one thread, in its cache
inline constexpr uint64_t kRangeEntriesMin = 1
                                             << 13;  // below this a task costs more than it brings
inline constexpr uint32_t kRangesPerThread = 8;      // so that uneven ranges even out
inline constexpr uint32_t kSamplesPerRange = 32;

template <class Op, class V>
class SortPlan : public CpuPlan {
 public:
  SortPlan(const ReduceSpec& spec, Parallel& parallel)
      : spec_(spec), width_(SlotsPerRow(spec)), parallel_(parallel) {}

  void Fold(std::span<const PendingUpdate> batch) override {
    lsb_ = NextWindow(SampleProducts<Op, V>(spec_.layout, batch), has_window_, lsb_);
    has_window_ = true;
    const std::vector<Piece> pieces = SortPieces(batch);
    const std::vector<uint64_t> borders = Borders(batch, pieces);
    std::vector<Partial> ranges(borders.size() + 1);
    parallel_.For(ranges.size(), [&](size_t r) {
      const uint64_t low = r == 0 ? 0 : borders[r - 1];
      const uint64_t high = r == borders.size() ? kNumRowsMax : borders[r];
      ReduceRange(batch, pieces, low, high, ranges[r]);
    });
    Partial folded = Concatenate(std::move(ranges));
    for (const PendingUpdate& update : batch) folded.addends += update.staged.entries.nnz;
    Merge(std::move(folded));
  }

  void Merge(Partial partial) override {
    levels_.push_back(std::move(partial));
    while (levels_.size() > 1 &&
           levels_.back().rows.size() * 2 > levels_[levels_.size() - 2].rows.size())
      MergeTop();
  }

  Partial State() override {
    while (levels_.size() > 1) MergeTop();
    if (levels_.empty()) levels_.push_back(Empty());
    return levels_.back();
  }

 private:
  // Place of an entry: entry `at` (in ascending order) of a piece. Pieces of one update are
  // neighbours.
  struct Key {
    uint64_t row;
    uint32_t piece;
    uint32_t at;
  };

  Partial Empty() const {
    Partial partial;
    partial.spec = spec_;
    partial.lsb = lsb_;
    return partial;
  }

  void MergeTop() {
    Partial top = std::move(levels_.back());
    levels_.pop_back();
    levels_.back() = MergePartials(std::move(levels_.back()), std::move(top));
  }

  std::vector<Piece> SortPieces(std::span<const PendingUpdate> batch) {
    std::vector<Piece> pieces;
    for (uint32_t u = 0; u < batch.size(); ++u) {
      const uint64_t nnz = batch[u].staged.entries.nnz;
      for (uint64_t begin = 0; begin < nnz; begin += kPieceEntries) {
        pieces.push_back(
            {u, begin, static_cast<uint32_t>(std::min<uint64_t>(kPieceEntries, nnz - begin)), {}});
      }
    }
    parallel_.For(pieces.size(), [&](size_t p) {
      SortPiece(batch[pieces[p].update].staged.entries.view(), pieces[p]);
    });
    return pieces;
  }

  std::vector<uint64_t> Borders(std::span<const PendingUpdate> batch,
                                const std::vector<Piece>& pieces) const {
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
      for (; i < piece.size; i += stride)
        samples.push_back(rows[piece.Entry(static_cast<uint32_t>(i))]);
      skip = i - piece.size;
    }
    std::sort(samples.begin(), samples.end());
    std::vector<uint64_t> borders;
    for (uint64_t r = 1; r < ranges; ++r) borders.push_back(samples[r * samples.size() / ranges]);
    borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
    return borders;
  }

  // Entries of `piece` with a row in [low, high).
  static std::pair<uint32_t, uint32_t> Cut(const uint64_t* rows, const Piece& piece, uint64_t low,
                                           uint64_t high) {
    const auto first_at_least = [&](uint64_t bound) {
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
    };
    return {first_at_least(low), first_at_least(high)};
  }

  void ReduceRange(std::span<const PendingUpdate> batch, const std::vector<Piece>& pieces,
                   uint64_t low, uint64_t high, Partial& out) const {
    std::vector<Key> keys;
    for (uint32_t p = 0; p < pieces.size(); ++p) {
      const uint64_t* rows = batch[pieces[p].update].staged.entries.indices;
      const auto [begin, end] = Cut(rows, pieces[p], low, high);
      for (uint32_t i = begin; i < end; ++i) keys.push_back({rows[pieces[p].Entry(i)], p, i});
    }
    std::sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) {
      return a.row != b.row ? a.row < b.row : a.piece != b.piece ? a.piece < b.piece : a.at < b.at;
    });
    SumRuns(batch, pieces, keys, out);
    std::stable_sort(out.side.begin(), out.side.end(), [](const SideEntry& a, const SideEntry& b) {
      return a.row != b.row ? a.row < b.row : a.column < b.column;
    });
    CompactSide(out.side);
  }

  void SumRuns(std::span<const PendingUpdate> batch, const std::vector<Piece>& pieces,
               const std::vector<Key>& keys, Partial& out) const {
    SlotWriter<Op, V> writer(spec_, lsb_, out.side);
    const uint32_t row_width = spec_.layout.row_width;
    const Columns all{0, row_width};
    const auto values = [&](const Key& key) {
      const Piece& piece = pieces[key.piece];
      return static_cast<const V*>(batch[piece.update].staged.entries.values) +
             piece.Entry(key.at) * row_width;
    };
    for (size_t i = 0; i < keys.size();) {
      if (out.rows.empty() || out.rows.back() != keys[i].row) {
        out.rows.push_back(keys[i].row);
        out.slots.resize(out.slots.size() + width_, EmptySlot<Op>());
      }
      Int128* slots = out.slots.data() + out.slots.size() - width_;
      // The entries of one contributor in this row.
      const uint32_t update = pieces[keys[i].piece].update;
      size_t end = i + 1;
      while (end < keys.size() && keys[end].row == keys[i].row &&
             pieces[keys[end].piece].update == update)
        ++end;
      const float weight = batch[update].weight;
      if constexpr (kPerUpdate<Op>) {
        writer.AddContribution(
            static_cast<uint32_t>(end - i), [&](uint32_t k) { return values(keys[i + k]); }, all,
            slots);
      }
      if constexpr (Op::kValues == ValueSlots::kExactSum) {
        for (size_t k = i; k < end; ++k)
          writer.AddEntry(keys[k].row, values(keys[k]), weight, all, slots);
      }
      writer.AddHolder(keys[i].row, weight, slots);
      i = end;
    }
  }

  Partial Concatenate(std::vector<Partial> ranges) {
    std::vector<size_t> row_at(ranges.size() + 1, 0);
    std::vector<size_t> side_at(ranges.size() + 1, 0);
    for (size_t r = 0; r < ranges.size(); ++r) {
      row_at[r + 1] = row_at[r] + ranges[r].rows.size();
      side_at[r + 1] = side_at[r] + ranges[r].side.size();
    }
    Partial all = Empty();
    all.rows.resize(row_at.back());
    all.slots.resize(row_at.back() * width_);
    all.side.resize(side_at.back());
    parallel_.For(ranges.size(), [&](size_t r) {
      std::copy(ranges[r].rows.begin(), ranges[r].rows.end(), all.rows.begin() + row_at[r]);
      std::copy(ranges[r].slots.begin(), ranges[r].slots.end(),
                all.slots.begin() + row_at[r] * width_);
      std::copy(ranges[r].side.begin(), ranges[r].side.end(), all.side.begin() + side_at[r]);
    });
    return all;
  }

  const ReduceSpec spec_;
  const uint32_t width_;
  Parallel& parallel_;
  bool has_window_ = false;
  int32_t lsb_ = 0;
  std::vector<Partial> levels_;  // each at least twice the rows of the next
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_SORT_PLAN_H_

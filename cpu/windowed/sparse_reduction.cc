#include "cpu/windowed/sparse_reduction.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <utility>

#include "cpu/state/entry_tally.h"
#include "cpu/state/tuning.h"
#include "cpu/windowed/partition.h"
#include "cpu/windowed/window_layout.h"
#include "sparse/validate.h"

namespace sparseagg {
namespace {

class SparseReduction {
 public:
  SparseReduction(const ReduceSpec& spec, const CpuKernels& kernels, Parallel& parallel, Feed feed,
                  std::vector<PendingUpdate>& batch, const CellRun& run,
                  const Finalization& finalization)
      : spec_(spec),
        kernels_(kernels),
        parallel_(parallel),
        feed_(feed),
        batch_(batch),
        run_(run),
        output_(spec, kernels, finalization, parallel) {}

  absl::StatusOr<SparseSums> Run() {
    Prepare();
    plan_ = MakeWindows();
    if (feed_ == Feed::kPartition && plan_.windows.size() > 1) {
      RunPartition();
    } else {
      RunSweep();
    }
    absl::StatusOr<SparseSums> sums = output_.Close(run_.side);
    if (sums.ok()) {  // otherwise ranges ended early
      added_.Expect(kEntries, entries_);
      added_.Expect(kRunRows, run_.rows.size());
    }
    return sums;
  }

 private:
  void Prepare() {
    const Need need = kernels_.needs_unique_rows ? Need::kUniqueRows
                      : feed_ == Feed::kSweep    ? Need::kSorted
                                                 : Need::kAny;
    prepared_ = PrepareUpdates(spec_, need, parallel_, batch_);
    for (size_t u = 0; u < batch_.size(); ++u) {
      for (const Cursor& cursor : prepared_[u].cursors) AddCursor(cursor, u);
      if (prepared_[u].owned.empty()) {
        AddCursor(CursorOf(batch_[u]), u);
      } else {
        batch_[u].staged.memory.reset();
      }
    }
  }

  void AddCursor(const Cursor& cursor, size_t update) {
    if (cursor.size() == 0) return;
    cursors_.push_back(cursor);
    owners_.push_back(update);
    entries_ += cursor.size();
  }

  static uint64_t SizeOfAll(std::span<const Cursor> cursors) {
    uint64_t entries = 0;
    for (const Cursor& cursor : cursors) entries += cursor.size();
    return entries;
  }

  RunCursor WholeRun() const {
    return {run_.rows.data(), run_.rows.data() + run_.rows.size(), run_.values.data(),
            run_.row_cells.data()};
  }

  WindowLayout MakeWindows() const {
    const uint64_t entries = entries_ + run_.rows.size();
    const TensorLayout& layout = spec_.layout;
    if (entries <= kSmallEntries) {
      const bool dense = layout.num_rows <= kDenseCellsMin / layout.row_width;
      return {{{0, layout.num_rows, dense}}, {1}};
    }
    double per_sample = 1;
    const std::vector<uint64_t> samples = SampleRows(
        cursors_, WholeRun(), std::min(entries / kEntriesPerSample, kSamplesMax), per_sample);
    WindowTuning tuning;
    // Entering a range costs a search in every cursor.
    const uint64_t per_thread = entries / (kEntriesPerRange * (cursors_.size() + 1));
    tuning.ranges = static_cast<uint32_t>(
        parallel_.threads() == 1
            ? 1
            : parallel_.threads() * std::clamp<uint64_t>(per_thread, 1, kRangesPerThread));
    if (feed_ == Feed::kPartition) {
      tuning.dense_cells = kPartitionCells;
      tuning.sparse_entries =
          std::max(SparseEntriesMin(layout.row_width), entries / kPartitionWindows);
    } else {
      // A window has as many cells as give each cursor enough entries: the fewer, the larger the
      // part of the rows that is touched.
      const double touched =
          std::min(1.0, static_cast<double>(entries) / static_cast<double>(layout.num_rows));
      const double cells = static_cast<double>(kEntriesPerVisit * cursors_.size()) / touched;
      tuning.dense_cells = static_cast<size_t>(std::clamp<double>(
          cells, static_cast<double>(kDenseCellsMin), static_cast<double>(kDenseCellsMax)));
      tuning.sparse_entries = SparseEntriesFor(cursors_.size(), layout.row_width);
    }
    tuning.dense_rows_per_entry = kDenseRowsPerEntry;
    if (layout.row_width > 1) {
      tuning.dense_cells = kWideCells;
      tuning.dense_rows_per_entry = kWideRowsPerEntry;
    }
    return LayOutWindows(samples, per_sample, layout, tuning);
  }

  // Reserves the output: a range has no more rows than entries, nor more than it spans. before[r]
  // is the number of the updates' entries below range r. Wide rows are counted first: that reads
  // little, and saves moving them. for_each_row(r, f) calls f(rows, size) for the updates' rows in
  // range r.
  template <class ForEachRow>
  void ReserveOutput(const std::vector<uint64_t>& before, const ForEachRow& for_each_row) {
    if (plan_.range_ends.size() > 1 && spec_.layout.row_width >= kCountedWidth &&
        spec_.layout.num_rows / 64 <= entries_ * spec_.layout.row_width) {
      output_.ReserveExactly(CountRows(for_each_row));
      return;
    }
    std::vector<uint64_t> starts;
    for (size_t r = 0; r < plan_.range_ends.size(); ++r) {
      const uint64_t begin = plan_.windows[FirstWindow(r)].begin;
      const auto of_run = static_cast<uint64_t>(RunFrom(begin).row - run_.rows.data());
      starts.push_back(std::min<uint64_t>(before[r] + of_run, begin));
    }
    starts.push_back(std::min<uint64_t>(entries_ + run_.rows.size(), spec_.layout.num_rows));
    output_.Reserve(std::move(starts));
  }

  // Returns the number of rows of each range.
  template <class ForEachRow>
  std::vector<uint64_t> CountRows(const ForEachRow& for_each_row) {
    const size_t num_ranges = plan_.range_ends.size();
    std::vector<uint64_t> counts(num_ranges, 0);
    parallel_.For(num_ranges, [&](size_t r) {
      const uint64_t begin = plan_.windows[FirstWindow(r)].begin;
      const uint64_t end = plan_.windows[plan_.range_ends[r] - 1].end;
      std::vector<uint64_t> held((end - begin) / 64 + 1, 0);
      const auto mark = [&](const uint64_t* rows, size_t size) {
        for (size_t i = 0; i < size; ++i) {
          held[(rows[i] - begin) / 64] |= uint64_t{1} << ((rows[i] - begin) % 64);
        }
      };
      for_each_row(r, mark);
      const RunCursor run = RunFrom(begin);
      mark(run.row, static_cast<size_t>(std::lower_bound(run.row, run.end, end) - run.row));
      for (uint64_t word : held) counts[r] += static_cast<uint64_t>(std::popcount(word));
    });
    return counts;
  }

  RunCursor RunFrom(uint64_t row) const {
    RunCursor run = WholeRun();
    const size_t skip = static_cast<size_t>(std::lower_bound(run.row, run.end, row) - run.row);
    run.row += skip;
    run.value += skip * spec_.layout.row_width * kernels_.value_bytes;
    run.row_cell += skip * kernels_.row_bytes;
    return run;
  }

  size_t FirstWindow(size_t r) const { return r == 0 ? 0 : plan_.range_ends[r - 1]; }

  void RunSweep() {
    // The entry at which each cursor enters each range.
    const size_t num_ranges = plan_.range_ends.size();
    std::vector<std::vector<uint64_t>> enters(num_ranges);
    std::vector<uint64_t> before(num_ranges, 0);
    parallel_.For(num_ranges, [&](size_t r) {
      if (r == 0) return;
      const uint64_t begin = plan_.windows[FirstWindow(r)].begin;
      enters[r].reserve(cursors_.size());
      for (const Cursor& cursor : cursors_) {
        const uint64_t* at = std::lower_bound(cursor.row, cursor.end, begin);
        enters[r].push_back(static_cast<uint64_t>(at - cursor.row));
        before[r] += enters[r].back();
      }
    });
    ReserveOutput(before, [&](size_t r, const auto& mark) {
      for (size_t k = 0; k < cursors_.size(); ++k) {
        const uint64_t begin = r == 0 ? 0 : enters[r][k];
        const uint64_t end = r + 1 == num_ranges ? cursors_[k].size() : enters[r + 1][k];
        mark(cursors_[k].row + begin, end - begin);
      }
    });
    // Prefetches twice what a visit reads, and the further ahead the less that is.
    const uint64_t visits = cursors_.size() * plan_.windows.size() + 1;
    const uint64_t per_visit = entries_ / visits + 1;
    const Prefetch prefetch{
        static_cast<uint32_t>(std::clamp<uint64_t>(kEntriesAhead / per_visit, 1, 8)),
        static_cast<uint32_t>(std::clamp<uint64_t>(2 * per_visit / 8, 2, 9))};
    const size_t entry_bytes = ValueBytes(kernels_, spec_.layout) * spec_.layout.row_width;
    output_.ForEachRange(run_.side, [&](size_t r, RangeReducer& reducer) {
      std::vector<Cursor> cursors;
      cursors.reserve(cursors_.size());
      for (size_t k = 0; k < cursors_.size(); ++k) {
        Cursor cursor = cursors_[k];
        if (r > 0) {
          cursor.row += enters[r][k];
          cursor.value += enters[r][k] * entry_bytes;
        }
        if (cursor.row < cursor.end) cursors.push_back(cursor);
      }
      RunCursor run = RunFrom(plan_.windows[FirstWindow(r)].begin);
      const uint64_t entries = SizeOfAll(cursors);
      const uint64_t run_rows = run.size();
      for (size_t w = FirstWindow(r); w < plan_.range_ends[r]; ++w) {
        reducer.Sweep(plan_.windows[w], cursors, run, prefetch);
      }
      added_.Add(kEntries, entries - SizeOfAll(cursors));
      added_.Add(kRunRows, run_rows - run.size());
    });
  }

  void RunPartition() {
    const bool wide = spec_.layout.row_width > 1;
    Partition partition(spec_.layout, ValueBytes(kernels_, spec_.layout), plan_.windows, parallel_);
    std::vector<std::atomic<uint32_t>> left(batch_.size());
    for (size_t u : owners_) left[u].fetch_add(1, std::memory_order_relaxed);
    // The memory of an update that has been read is written to again, so both together take little
    // more than the updates did. Wide rows are referenced, so their memory is kept.
    partition.Distribute(cursors_, [&](size_t k) -> std::span<std::byte> {
      const size_t u = owners_[k];
      StagedUpdate& staged = batch_[u].staged;
      if (left[u].fetch_sub(1, std::memory_order_acq_rel) != 1 || wide) return {};
      if (staged.memory != nullptr) {
        return {static_cast<std::byte*>(staged.memory.get()), staged.bytes};
      }
      return prepared_[u].owned.front();
    });
    std::vector<uint64_t> before(plan_.range_ends.size() + 1, 0);
    for (size_t r = 0; r < plan_.range_ends.size(); ++r) {
      before[r + 1] = before[r];
      for (size_t w = FirstWindow(r); w < plan_.range_ends[r]; ++w) {
        before[r + 1] += partition.EntriesOf(w);
      }
    }
    ReserveOutput(before, [&](size_t r, const auto& mark) {
      std::vector<RefSpan> spans;
      for (size_t w = FirstWindow(r); w < plan_.range_ends[r]; ++w) {
        partition.Read(w, spans);
        for (const RefSpan& span : spans) mark(span.rows, span.size);
      }
    });
    output_.ForEachRange(run_.side, [&](size_t r, RangeReducer& reducer) {
      RunCursor run = RunFrom(plan_.windows[FirstWindow(r)].begin);
      const uint64_t run_rows = run.size();
      std::vector<EntrySpan> spans;
      std::vector<RefSpan> refs;
      for (size_t w = FirstWindow(r); w < plan_.range_ends[r]; ++w) {
        if (wide) {
          partition.Read(w, refs);
          reducer.GatherRefs(plan_.windows[w], refs, run);
          for (const RefSpan& span : refs) added_.Add(kEntries, span.size);
        } else {
          partition.Read(w, spans);
          reducer.Gather(plan_.windows[w], spans, run);
          for (const EntrySpan& span : spans) added_.Add(kEntries, span.size);
        }
      }
      added_.Add(kRunRows, run_rows - run.size());
    });
  }

  const ReduceSpec& spec_;
  const CpuKernels& kernels_;
  Parallel& parallel_;
  const Feed feed_;
  std::vector<PendingUpdate>& batch_;
  const CellRun& run_;
  std::vector<Prepared> prepared_;  // of each update
  std::vector<Cursor> cursors_;     // of all
  std::vector<size_t> owners_;      // update of each cursor
  uint64_t entries_ = 0;
  // How many entries, and rows of the run, have been added.
  enum Tallied : size_t { kEntries, kRunRows };
  EntryTally added_{2};
  WindowLayout plan_;
  RangedOutput output_;
};

}  // namespace

absl::StatusOr<SparseSums> ReduceSparse(const ReduceSpec& spec, const CpuKernels& kernels,
                                        Parallel& parallel, Feed feed,
                                        std::vector<PendingUpdate>& batch, const CellRun& run,
                                        const Finalization& finalization) {
  return SparseReduction(spec, kernels, parallel, feed, batch, run, finalization).Run();
}

}  // namespace sparseagg

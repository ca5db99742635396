#include "cpu/cost_model.h"

#include <algorithm>
#include <cmath>

#include "cpu/kernels/kernels.h"
#include "cpu/state/key_sort.h"
#include "cpu/state/tuning.h"

namespace sparseagg {
namespace {

constexpr const CpuCosts& kCost = kCpuCosts;

uint64_t Saturated(double bytes) {
  return bytes < 0x1p63 ? static_cast<uint64_t>(bytes) : uint64_t{1} << 63;
}

// A workload as the model sees it.
struct Load {
  double updates;
  double entries;
  double rows;     // of the index space
  double touched;  // rows of the result, for indices spread evenly
  double width;
  bool sorted;
  bool needs_unique_rows;  // every plan first sorts updates that are not canonical
  double sort;             // cost of an entry of a sparse window
  double streamed;         // bytes of entries that arrive over time
};

// Returns how many of `rows` rows are touched by `entries` entries that are spread evenly.
double TouchedBy(double rows, double entries) { return rows * -std::expm1(-entries / rows); }

Load LoadOf(const ReduceSpec& spec, const Workload& workload) {
  Load load;
  load.rows = static_cast<double>(spec.layout.num_rows);
  // Unknown sizes become those of a usual round.
  load.updates = workload.contributors > 0 ? static_cast<double>(workload.contributors) : 100;
  const double nnz = workload.nnz_per_update > 0 ? static_cast<double>(workload.nnz_per_update)
                                                 : std::clamp(load.rows / 100, 1.0, 1e5);
  load.entries = load.updates * nnz;
  load.touched = TouchedBy(load.rows, load.entries);
  load.width = spec.layout.row_width;
  const CpuKernels* kernels = KernelsFor(spec.layout.value_type, spec.op);
  load.needs_unique_rows = kernels != nullptr && kernels->needs_unique_rows;
  load.sort = SortsInLongVectors() ? kCost.sort : kCost.short_sort;
  load.sorted = workload.order != EntryOrder::kUnsorted;
  const double entry_bytes = sizeof(uint64_t) + static_cast<double>(spec.layout.row_bytes());
  load.streamed = workload.at_once ? 0.0 : load.entries * entry_bytes;
  return load;
}

double Visits(const Load& load, double visits, double each) {
  const bool far = load.entries * load.width > kCost.far_entries;
  return visits * each * (far ? kCost.far_visit : 1.0);
}

// Returns whether updates have nearly every row: their entries then lie side by side.
bool IsFull(const Load& load) {
  return load.sorted && load.entries >= 0.9 * load.rows * load.updates;
}

// Returns whether windows sort their entries, because few of the rows are touched.
bool HasSparseWindows(const Load& load) {
  const double rows_per_entry = load.width > 1 ? kWideRowsPerEntry : kDenseRowsPerEntry;
  return load.entries / load.rows * rows_per_entry < 1;
}

double SparseEntries(const Load& load, double cursors) {
  return static_cast<double>(
      SparseEntriesFor(static_cast<uint64_t>(cursors), static_cast<uint32_t>(load.width)));
}

// Returns the cost of adding entries to windows and of emitting their rows.
double Windows(const Load& load, double cursors, double cells_max) {
  const double density = load.entries / load.rows;
  const double rows_out = load.touched * kCost.emit;
  const double wanted = static_cast<double>(kEntriesPerVisit) * cursors / std::min(1.0, density);
  const double cells = std::clamp(wanted, static_cast<double>(kDenseCellsMin), cells_max);
  if (HasSparseWindows(load)) {
    const double windows = load.entries / SparseEntries(load, cursors) + 1;
    return load.entries * load.sort + Visits(load, windows * cursors, kCost.sparse_visit) +
           rows_out;
  }
  return load.entries * (IsFull(load) ? kCost.full_scatter : kCost.scatter) +
         Visits(load, (load.rows / cells + 1) * cursors, kCost.visit) + load.rows * kCost.scan +
         rows_out;
}

double Order(const Load& load, bool needed) {
  return !load.sorted && (needed || load.needs_unique_rows) ? load.entries * kCost.order : 0.0;
}

double WideEmit(const Load& load) {
  return load.touched * (kCost.emit + load.width * kCost.wide_emit);
}

// The same for rows of several values: they are scattered where most rows are touched more than
// once; otherwise references to them are sorted.
double WideWindows(const Load& load, double cursors) {
  const bool dense = !HasSparseWindows(load);
  const double window =
      dense ? static_cast<double>(kWideCells) / load.width * load.entries / load.rows
            : SparseEntries(load, cursors);
  const double each = dense ? kCost.wide_entry : kCost.wide_ref;
  const double visit = dense ? kCost.wide_visit : kCost.sparse_visit;
  const double value = load.width > kCost.far_width ? kCost.far_value : kCost.wide_value;
  return load.entries * (each + load.width * value) +
         Visits(load, (load.entries / window + 1) * cursors, visit) + WideEmit(load);
}

double Sweep(const Load& load) {
  return Order(load, true) +
         (load.width > 1 ? WideWindows(load, load.updates)
                         : Windows(load, load.updates, static_cast<double>(kDenseCellsMax)));
}

double Distribute(const Load& load) {
  const bool rows_apart = load.width > 1 && !HasSparseWindows(load);
  if (!load.sorted) {
    const bool slow = rows_apart && !SortsInLongVectors();
    return load.entries * (kCost.partition_far + (slow ? kCost.short_partition : 0));
  }
  return load.entries * (rows_apart ? kCost.wide_partition : kCost.partition);
}

double Partition(const Load& load) {
  return Order(load, false) + Distribute(load) + load.updates * kCost.partition_update +
         (load.width > 1 ? WideWindows(load, 1)
                         : Windows(load, 1, static_cast<double>(kPartitionCells)));
}

// Returns the cells of the slices that entries touch, which are cleared, and scanned for the
// result.
double CellsOfSlices(const Load& load) {
  const double cells = load.rows * load.width;
  const double slices = std::max(1.0, cells / static_cast<double>(kSliceCells));
  return cells * TouchedBy(slices, load.entries) / slices;
}

double DenseEntries(const Load& load) {
  const double cells = load.rows * load.width;
  double each = IsFull(load) ? kCost.full_dense : kCost.dense_scatter;
  if (load.width > 1) {
    each = (load.sorted ? kCost.wide_entry : kCost.wide_far) + load.width * kCost.wide_value;
  }
  const double visits = cells / static_cast<double>(kPartitionCells) + 1;
  return Order(load, false) + load.entries * each +
         (load.sorted ? Visits(load, visits * load.updates, kCost.visit)
                      : Distribute(load) + load.updates * kCost.partition_update);
}

// Returns the cost of clearing the cells and scanning them for the result.
double DenseCells(const Load& load) {
  if (load.width == 1) {
    return CellsOfSlices(load) * (load.rows > kCost.far_cells ? kCost.far_clear : kCost.clear);
  }
  // Rows beyond the cache are summed some columns at a time.
  return load.width <= kCost.far_width ? CellsOfSlices(load) * kCost.wide_clear : 0.0;
}

double DenseEmit(const Load& load) {
  return load.width == 1 ? load.touched * kCost.emit : WideEmit(load);
}

double Dense(const Load& load) { return DenseEntries(load) + DenseCells(load) + DenseEmit(load); }

// Returns the load of `entries` entries that are added to a dense state, in any number of batches.
Load Added(Load load, uint64_t entries) {
  load.entries = static_cast<double>(entries);
  load.touched = TouchedBy(load.rows, load.entries);
  return load;
}

// Returns the time of `ns` of work that can be divided into `tasks` tasks.
double Seconds(const BackendInfo& backend, const Load& load, double ns, double tasks) {
  const double threads = std::clamp(tasks, 1.0, static_cast<double>(backend.threads));
  if (load.entries > static_cast<double>(kSmallEntries)) ns += kCost.start;
  ns += load.updates * kCost.update;
  return ns * 1e-9 / (1 + (threads - 1) * kCost.thread_share);
}

double DenseTasks(const Load& load) { return load.rows * load.width / 4096; }

// Returns the cost of merging the state with each batch but the first, and with what is pending at
// the end. In sparse windows its rows are sorted with the entries.
double Merges(const Load& load, double row_cells) {
  constexpr int kFoldsMax = 100;  // that are modelled; the state has its full size by then
  double rows = 0;                // of the state, added up over the folds
  double arrived = 0;
  double batch = static_cast<double>(kBatchBytesMin);
  for (int fold = 0; fold < kFoldsMax && arrived + batch <= load.streamed; ++fold) {
    arrived += batch;
    const double held = TouchedBy(load.rows, load.entries * arrived / load.streamed);
    rows += held;
    batch = static_cast<double>(BatchBytes(Saturated(held * (sizeof(uint64_t) + row_cells))));
    if (fold + 1 == kFoldsMax) rows += held * std::floor((load.streamed - arrived) / batch);
  }
  if (load.width == 1) return rows * (HasSparseWindows(load) ? load.sort : kCost.merge);
  const double repeated = 1 - load.touched / load.entries;
  return rows * load.width * (kCost.wide_merge + kCost.wide_join * repeated);
}

// Returns the bytes of a row's cells.
double RowCells(const ReduceSpec& spec) {
  const CpuKernels* kernels = KernelsFor(spec.layout.value_type, spec.op);
  if (kernels == nullptr) return 0.0;
  return static_cast<double>(spec.layout.row_width) * kernels->value_bytes + kernels->row_bytes;
}

uint64_t PendingEntryBytes(const ReduceSpec& spec) {
  return sizeof(uint64_t) + spec.layout.row_bytes();
}

// Returns the cost of a plan in windows that takes `ns` without its merges.
PlanCost WindowedCost(const BackendInfo& backend, const ReduceSpec& spec, const Load& load,
                      double ns) {
  const double row_cells = RowCells(spec);
  const double tasks = std::min(load.rows, load.entries / static_cast<double>(kSmallEntries));
  PlanCost cost;
  cost.seconds = Seconds(backend, load, ns + Merges(load, row_cells), tasks);
  // A pending entry is kept as it arrived, and may become a row of cells, twice while a batch is
  // folded in.
  cost.entry_bytes = PendingEntryBytes(spec) + 2 * (sizeof(uint64_t) + Saturated(row_cells));
  return cost;
}

}  // namespace

uint64_t BatchBytes(uint64_t state_bytes) {
  const uint64_t several = std::min(state_bytes, kBatchBytesMax / kStatesInBatch) * kStatesInBatch;
  return std::max({kBatchBytesMin, state_bytes, several});
}

Feed FeedFor(const ReduceSpec& spec, const Workload& workload) {
  const Load load = LoadOf(spec, workload);
  return Sweep(load) <= Partition(load) ? Feed::kSweep : Feed::kPartition;
}

PlanCost DenseCost(const BackendInfo& backend, const ReduceSpec& spec, const Workload& workload) {
  const Load load = LoadOf(spec, workload);
  return {.seconds = Seconds(backend, load, Dense(load), DenseTasks(load)),
          .fixed_bytes = Saturated(load.rows * RowCells(spec)),
          .entry_bytes = PendingEntryBytes(spec)};
}

PlanCost SweepCost(const BackendInfo& backend, const ReduceSpec& spec, const Workload& workload) {
  const Load load = LoadOf(spec, workload);
  return WindowedCost(backend, spec, load, Sweep(load));
}

PlanCost PartitionCost(const BackendInfo& backend, const ReduceSpec& spec,
                       const Workload& workload) {
  const Load load = LoadOf(spec, workload);
  return WindowedCost(backend, spec, load, Partition(load));
}

PlanCost RowsCost(const BackendInfo& backend, const ReduceSpec& spec, const Workload& workload) {
  const Load load = LoadOf(spec, workload);
  // The cheaper way is chosen for each batch. An offset of 1 ns makes this plan the name for wide
  // rows, and never for single values.
  const double ns = std::min(Sweep(load), Partition(load)) + (load.width > 1 ? -1 : 1);
  return WindowedCost(backend, spec, load, ns);
}

double DenseStepSeconds(const BackendInfo& backend, const ReduceSpec& spec,
                        const Workload& workload, uint64_t entries_before, DenseStep step) {
  Load load = LoadOf(spec, workload);
  const bool any = workload.contributors > 0;
  if (!any) load.updates = load.entries = 0;
  const Load before = Added(load, entries_before);
  const Load after = Added(load, entries_before + static_cast<uint64_t>(load.entries));
  // Clearing a cell is about half of its cost.
  double ns = (DenseCells(after) - DenseCells(before)) / 2;
  if (any) ns += DenseEntries(load);
  if (step == DenseStep::kReport) ns += DenseCells(after) / 2 + DenseEmit(after);
  return Seconds(backend, load, ns, DenseTasks(load));
}

}  // namespace sparseagg

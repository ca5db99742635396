#include "cuda/cost_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cuda/window.h"
#include "sparse/partial.h"

namespace sparseagg::gpu {
namespace {

// Of a round of which nothing is known.
constexpr double kUsualContributors = 100;
constexpr double kUsualEntries = 10000;
// Share of the copy rate that kernels with gathers and long integers reach.
constexpr double kGatherShare = 0.8;
constexpr double kScalarShare = 0.4;  // one value a thread, in rows of several
constexpr double kRowShare = 0.85;    // whole rows, 16 bytes a lane and several loads under way
// kernels/tiles/tile_merge.cu and kernels/sort/bucket_sums.cu: rows and slots of a tile, tiles that
// there should be, entries below which they decline. Beside its adds a round of 4096 entries takes
// as long as so many of them would: 9 barriers and the latency of its loads, 6 us, while a
// multiprocessor works on two.
constexpr double kTileRows = 1 << 15;
constexpr double kTileSlots = 4096;
constexpr double kTilesMeant = 2048;
constexpr double kTileEntriesMin = 128;
constexpr double kBucketEntriesMin = 1024;
constexpr double kRoundAdds = 9000;
constexpr double kEntriesOfSample = 64;
// The rows that kernels/cusparse/cusparse_dense.cu converts at a time. For each time the library
// starts some kernels and waits once.
constexpr double kConvertedRows = 1 << 24;
constexpr double kLaunchesOfConversion = 16;
constexpr double kBatchBytes = 1 << 26;  // Tuning::batch_bytes

// The numbers that the formulas are made of; all in double, since index spaces reach 2^63.
struct Load {
  SlotRule rule;
  double entries;       // N
  double contributors;  // C
  double rows;          // D
  double held;          // U: different rows, if they are uniform
  double held_most;     // rows that there may be, whatever they are
  double row_bytes;     // values of an entry
  double slot_bytes;    // slots of a row
  double row_bits;
  bool canonical;
  bool sorted;
};

Load LoadOf(const ReduceSpec& spec, const Workload& workload) {
  Load load{};
  load.rule = RuleOf(spec);
  load.contributors =
      workload.contributors > 0 ? static_cast<double>(workload.contributors) : kUsualContributors;
  load.rows = static_cast<double>(spec.layout.num_rows);
  const double nnz = workload.nnz_per_update > 0 ? static_cast<double>(workload.nnz_per_update)
                                                 : std::min(kUsualEntries, load.rows);
  load.entries = load.contributors * nnz;
  load.held = -load.rows * std::expm1(-load.entries / load.rows);
  const bool known = workload.contributors > 0 && workload.nnz_per_update > 0;
  load.held_most = known ? std::min(load.entries, load.rows) : load.rows;
  load.row_bytes = static_cast<double>(spec.layout.row_bytes());
  load.slot_bytes = SlotsPerRow(spec) * static_cast<double>(sizeof(Int128));
  load.row_bits = std::ceil(std::log2(load.rows));
  // Of the usual round, too, it is not known.
  load.canonical = workload.order == EntryOrder::kCanonical;
  load.sorted = workload.order >= EntryOrder::kSorted;
  return load;
}

uint64_t Saturated(double bytes) {
  return bytes < 0x1p63 ? static_cast<uint64_t>(bytes) : uint64_t{1} << 63;
}

double WriteRun(const DeviceRates& rates, const Load& load) {
  return load.held * (8 + load.slot_bytes) / rates.copy_bytes;
}

double SortEntriesSeconds(const DeviceRates& rates, const Load& load) {
  const bool packs = load.row_bits + std::ceil(std::log2(load.entries + 1)) <= 64;
  const double passes = std::max(1.0, std::ceil(load.row_bits / 8));
  const double rate = packs ? rates.sort_words : rates.sort_pairs;
  return 16 * load.entries / rates.copy_bytes +
         passes * std::max(load.entries / rate, rates.pass_seconds);
}

// Counting and writing the runs of equal rows.
double FindRunsSeconds(const DeviceRates& rates, const Load& load) {
  return (16 * load.entries + 16 * load.held) / rates.copy_bytes + 6 * rates.launch_seconds;
}

// Of adds in shared memory, and what tiles take beside them.
double TileAddSeconds(const DeviceRates& rates, const Load& load, double tiles) {
  const double slots = load.entries * load.rule.slots();
  return (slots + kRoundAdds * std::max(tiles, slots / kTileSlots)) / rates.shared_adds;
}

// Sorted by all bits of the row, and summed where the values are gathered.
double SortAllSeconds(const DeviceRates& rates, const Load& load) {
  const double sorted = SortEntriesSeconds(rates, load) + FindRunsSeconds(rates, load);
  if (load.rule.slots() > 2) {
    return sorted + load.entries * load.row_bytes / (kScalarShare * rates.copy_bytes) +
           WriteRun(rates, load) / kScalarShare;
  }
  // A gathered sector for each entry and slot.
  return sorted + load.entries * (8 + 32 * load.rule.slots()) / (kGatherShare * rates.copy_bytes) +
         WriteRun(rates, load);
}

// Bits that kernels/sort/bucket_sums.cu sorts by.
double BucketBits(const Load& load) {
  const double slots = load.entries * load.rule.slots();
  return std::clamp(std::ceil(std::log2(std::max(1.0, slots / kTileSlots))),
                    std::max(0.0, load.row_bits - std::log2(kTileRows)), load.row_bits);
}

double BucketSpans(const Load& load) {
  return std::ceil(load.rows / std::exp2(load.row_bits - BucketBits(load)));
}

bool SumsBuckets(const Load& load) {
  if (load.rule.width != 1 || load.rule.extreme()) return false;
  if (load.rule.row != RowSlot::kNone && !load.canonical) return false;
  const double bits = load.row_bits + std::ceil(std::log2(load.contributors)) +
                      std::ceil(std::log2(load.entries / load.contributors));
  return bits <= 64 && BucketSpans(load) <= load.entries / kBucketEntriesMin + 1;
}

double RadixSeconds(const DeviceRates& rates, const Load& load) {
  if (!SumsBuckets(load)) return SortAllSeconds(rates, load);
  const double passes = std::ceil(BucketBits(load) / 8);
  const double sort = 16 * load.entries / rates.copy_bytes +
                      passes * std::max(load.entries / rates.sort_words, rates.pass_seconds);
  // A word and a gathered sector for each entry.
  const double moved =
      load.entries * (8 + 32) / (kGatherShare * rates.copy_bytes) + WriteRun(rates, load);
  return sort + std::max(moved, TileAddSeconds(rates, load, BucketSpans(load))) +
         10 * rates.launch_seconds;
}

// `written`: bytes for each row held, beside its number.
double SumRowsSeconds(const DeviceRates& rates, const Load& load, double written) {
  const double bytes =
      load.entries * (8 + std::max(32.0, load.row_bytes)) + load.held * (8 + written);
  return SortEntriesSeconds(rates, load) + FindRunsSeconds(rates, load) +
         bytes / (kRowShare * rates.copy_bytes) + 4 * rates.launch_seconds;
}

double RowsSeconds(const DeviceRates& rates, const Load& load) {
  if (load.rule.slots() <= 2 || load.rule.extreme()) return 1.1 * SortAllSeconds(rates, load);
  return SumRowsSeconds(rates, load, load.slot_bytes);
}

double ThrustSeconds(const DeviceRates& rates, const Load& load) {
  const double sort = 8 * std::max(load.entries / rates.sort_pairs, 2 * rates.pass_seconds);
  const double slots = load.rule.slots() <= 2
                           ? load.entries * (40 + 3 * load.slot_bytes) / rates.copy_bytes
                           : load.entries * load.row_bytes / (kScalarShare * rates.copy_bytes) +
                                 WriteRun(rates, load) / kScalarShare;
  return 12 * load.entries / rates.copy_bytes + sort + slots + WriteRun(rates, load) +
         20 * rates.launch_seconds;
}

double DenseBytes(const Load& load) { return load.rows * (load.slot_bytes + 0.125); }

// Beside that for a snapshot or a result: the rows that are held and their slots, which cuSPARSE
// gathers by their places, and keys of min and max by way of others; then the values.
double DenseListBytes(std::string_view plan, const ReduceSpec& spec, const Load& load) {
  const double listing = plan == "cusparse_dense" ? load.slot_bytes : 0;
  const double finalization = static_cast<double>(ResultLayout(spec).row_bytes());
  return load.held_most * (8 + load.slot_bytes + std::max(listing, finalization));
}

double DenseSeconds(const DeviceRates& rates, const Load& load) {
  // An addend carries into the high word every other time, or is negative.
  const double adds = 1.5 * load.entries * load.rule.slots();
  const double rate = DenseBytes(load) <= rates.cache_bytes ? rates.cached_adds : rates.memory_adds;
  double seconds = load.entries * (8 + load.row_bytes) / rates.copy_bytes + adds / rate +
                   DenseBytes(load) / rates.copy_bytes +
                   (0.25 * load.rows + load.held * (64 + load.slot_bytes)) / rates.copy_bytes +
                   6 * rates.launch_seconds;
  const bool once = load.rule.extreme() || load.rule.row != RowSlot::kNone;
  if (once && !load.canonical) seconds += RadixSeconds(rates, load);
  return seconds;
}

// Reads a byte for each row twice, sorts what it finds by 24 bits, and moves slots by their places.
double CusparseDenseSeconds(const DeviceRates& rates, const Load& load) {
  const double sort = 3 * std::max(load.held / rates.sort_words, rates.pass_seconds);
  const double bytes = 3 * load.rows + load.held * (80 + load.rule.slots() * 24);
  const double ranges = std::ceil(load.rows / kConvertedRows);
  return DenseSeconds(rates, load) + sort + bytes / rates.copy_bytes +
         ranges * kLaunchesOfConversion * rates.launch_seconds;
}

bool IsDense(std::string_view plan) {
  return plan == "dense_accumulate" || plan == "cusparse_dense";
}

// The tiles of kernels/tiles/tile_merge.cu: those that there are at most decide whether it can take
// a batch.
struct Tiles {
  double most;
  double usual;
};
Tiles TilesOf(const Load& load) {
  const double slots = load.rule.slots();
  double rows = kTileRows;
  double entries = kTileSlots / slots;
  if (load.entries >= load.rows) {
    rows = kTileSlots / slots;
    entries *= std::clamp(load.entries / kTileSlots / kTilesMeant, 1.0, 8.0);
  }
  const double spans = std::ceil(load.rows / rows);
  const double by_entries = load.entries / entries;
  return {spans + by_entries, std::max(spans, std::ceil(by_entries))};
}

bool MergesTiles(const Load& load) {
  const bool ready = load.rule.row == RowSlot::kNone ? load.sorted : load.canonical;
  if (!ready || load.rule.width != 1 || load.rule.extreme()) return false;
  const double tiles = TilesOf(load).most;
  return tiles * load.contributors <= load.entries && tiles <= load.entries / kTileEntriesMin + 1;
}

double TilesSeconds(const DeviceRates& rates, const Load& load) {
  if (!MergesTiles(load)) return 1.01 * RadixSeconds(rates, load);
  const double tiles = TilesOf(load).usual;
  // A sample is a sector, and sorted; the search for a tile in an update reads about two sectors
  // that no other does, and its result is written and read twice.
  const double samples = load.entries / kEntriesOfSample;
  const double passes = std::ceil(load.row_bits / 8);
  const double cut = (32 * samples + (64 + 12) * tiles * load.contributors) / rates.copy_bytes +
                     passes * std::max(samples / rates.sort_words, rates.pass_seconds);
  const double moved =
      load.entries * (8 + load.row_bytes) / rates.copy_bytes + WriteRun(rates, load);
  return cut + std::max(moved, TileAddSeconds(rates, load, tiles)) + 10 * rates.launch_seconds;
}

// Four limbs of 8 bytes for each value, written, read and multiplied.
double SpmmSeconds(const DeviceRates& rates, const Load& load) {
  if (load.rule.values != ValueSlots::kExactSum) return 1.05 * RadixSeconds(rates, load);
  const double values = load.entries * load.rule.width;
  const double limb =
      (2 * 8 * values + 16 * load.entries + load.held * load.rule.width * (2 * 8 + 2 * 16)) /
      (kScalarShare * rates.copy_bytes);
  return SortEntriesSeconds(rates, load) + FindRunsSeconds(rates, load) +
         4 * (limb + 4 * rates.launch_seconds);
}

double PlanSeconds(const DeviceRates& rates, std::string_view plan, const Load& load) {
  if (plan == "dense_accumulate") return DenseSeconds(rates, load);
  if (plan == "tile_merge") return TilesSeconds(rates, load);
  if (plan == "row_reduce") return RowsSeconds(rates, load);
  if (plan == "cusparse_dense") return CusparseDenseSeconds(rates, load);
  if (plan == "cusparse_spmm") return SpmmSeconds(rates, load);
  if (plan == "radix_segments") return RadixSeconds(rates, load);
  return ThrustSeconds(rates, load);
}

}  // namespace

double ReduceSeconds(const DeviceRates& rates, std::string_view plan, const ReduceSpec& spec,
                     const Workload& workload) {
  return PlanSeconds(rates, plan, LoadOf(spec, workload));
}

double RoundRowsSeconds(const DeviceRates& rates, const ReduceSpec& spec,
                        const Workload& workload) {
  return SumRowsSeconds(rates, LoadOf(spec, workload),
                        static_cast<double>(ResultLayout(spec).row_bytes()));
}

PlanCost CudaCost(const DeviceRates& rates, std::string_view plan, const ReduceSpec& spec,
                  const Workload& workload) {
  const Load load = LoadOf(spec, workload);
  PlanCost cost;
  const double reduce = PlanSeconds(rates, plan, load);
  if (IsDense(plan)) {
    cost.fixed_bytes = Saturated(DenseBytes(load));
    cost.listing_bytes = Saturated(DenseListBytes(plan, spec, load));
    cost.entry_bytes = sizeof(uint64_t) + spec.layout.row_bytes();
  } else {
    cost.entry_bytes =
        2 * sizeof(uint64_t) + spec.layout.row_bytes() + SlotsPerRow(spec) * sizeof(Int128);
  }
  const double in = load.entries * (8 + load.row_bytes) / rates.bus_bytes;
  const double out = load.held * (8 + load.row_bytes) / rates.bus_back_bytes;
  // The last batch is reduced when everything has arrived, and then the runs of the state are
  // merged into one: read and written twice, since each is more than twice as large as the next.
  const double batches = std::max(1.0, load.entries * (8 + load.row_bytes) / kBatchBytes);
  double merges = 0;  // while others arrive
  double last = reduce / batches;
  if (!IsDense(plan) && batches > 1) {
    merges = 2 * WriteRun(rates, load) * std::log2(batches);
    last += 4 * WriteRun(rates, load);
  }
  cost.seconds = std::max(in, reduce + merges) + last + out;
  return cost;
}

}  // namespace sparseagg::gpu

// In: sorted entries of a batch, [size]. Out: keys [size / 512, width] of the long sums.
//
// One thread for every 512th position finds the run of its row and update around it, by binary
// search, and whether it is long: where neither neighbour is of it, as nearly everywhere, that is
// all. Then a thread for each of those positions and each column sums 512 positions exactly, up to
// 1023 for the first of a run, which also takes what lies before it; sums of 272 bytes (floats) or
// 16 (integers) are joined in groups of 64, as in row_pieces.cu: 10^8 entries of one row are
// 200,000 threads and then three times 64 steps. Bytes a position: a gathered sector of 32 for each
// column, where a run is long, and otherwise the look at one word in 512; memory for sums is
// half a byte a position and column. No atomics, no order: the sums are integers.
#include <type_traits>

#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/rows/long_sums.h"
#include "cuda/kernels/slots.cuh"

namespace sparseagg::gpu {
namespace {

constexpr uint64_t kGroup = 64;

// The run that position kLongSum * j is of. Without an end: it is not long.
struct LongRun {
  uint64_t begin;
  uint64_t end;
  uint32_t source;

  SPARSEAGG_HOST_DEVICE bool is_long() const { return end != 0; }
  SPARSEAGG_HOST_DEVICE uint64_t first_piece() const { return LongSumAt(begin); }
  SPARSEAGG_HOST_DEVICE uint64_t end_piece() const { return LongSumAt(end); }
};

struct FindLongRuns {
  BatchView batch;
  SortedEntries sorted;
  LongRun* runs;

  SPARSEAGG_DEVICE void operator()(uint64_t j) const {
    const uint64_t at = j * kLongSum;
    const uint32_t source = SourceOf(batch, sorted.Entry(at));
    runs[j] = {0, 0, source};
    const UpdateRef& update = batch.updates[source];
    const uint64_t row = sorted.Row(at);
    const auto is_of_run = [&](uint64_t p) {
      const uint64_t e = sorted.Entry(p);
      return sorted.Row(p) == row && e >= update.first && e < update.first + update.nnz;
    };
    const bool goes_on = at + 1 < sorted.size && is_of_run(at + 1);
    if (!goes_on && (at == 0 || !is_of_run(at - 1))) return;
    uint64_t begin = at < update.nnz ? 0 : at - update.nnz;
    for (uint64_t high = at; begin < high;) {
      const uint64_t middle = begin + (high - begin) / 2;
      if (is_of_run(middle)) {
        high = middle;
      } else {
        begin = middle + 1;
      }
    }
    uint64_t end = at + update.nnz < sorted.size ? at + update.nnz : sorted.size;
    for (uint64_t low = at + 1; low < end;) {
      const uint64_t middle = low + (end - low) / 2;
      if (is_of_run(middle)) {
        low = middle + 1;
      } else {
        end = middle;
      }
    }
    if (end - begin > kLongSum) runs[j] = {begin, end, source};
  }
};

// The sums of a piece of a run in a column.
template <class V>
struct SumPieces {
  BatchView batch;
  SortedEntries sorted;
  const LongRun* runs;
  ExactSum<V>* sums;  // [pieces, width]

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint64_t j = i / batch.width;
    const LongRun& run = runs[j];
    if (!run.is_long()) return;
    const UpdateRef& update = batch.updates[run.source];
    const uint64_t end = (j + 1) * kLongSum < run.end ? (j + 1) * kLongSum : run.end;
    ExactSum<V> sum{};
    for (uint64_t p = j == run.first_piece() ? run.begin : j * kLongSum; p < end; ++p) {
      AddTo(sum, ValueAt<V>(update, sorted.Entry(p) - update.first, batch.width,
                            static_cast<uint32_t>(i % batch.width)));
    }
    sums[i] = sum;
  }
};

// Every stride-th piece of a run, counted from its first, has the sum of those between. A piece
// that is a multiple of kGroup * stride takes the kGroup - 1 behind it.
template <class V>
struct JoinGroups {
  uint32_t width;
  const LongRun* runs;
  uint64_t stride;
  ExactSum<V>* sums;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint64_t j = i / width;
    const LongRun& run = runs[j];
    if (!run.is_long() || (j - run.first_piece()) % (kGroup * stride) != 0) return;
    ExactSum<V> sum = sums[i];
    for (uint64_t k = 1; k < kGroup && j + k * stride < run.end_piece(); ++k) {
      AddTo(sum, sums[i + k * stride * width]);
    }
    sums[i] = sum;
  }
};

// The first piece's thread joins what is left, a sum at every stride.
template <class V>
struct WriteKeys {
  SlotRule rule;
  const LongRun* runs;
  uint64_t stride;
  const ExactSum<V>* sums;
  Int128* keys;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint64_t j = i / rule.width;
    const LongRun& run = runs[j];
    if (!run.is_long() || j != run.first_piece()) return;
    ExactSum<V> sum = sums[i];
    for (uint64_t k = j + stride; k < run.end_piece(); k += stride) {
      AddTo(sum, sums[i + (k - j) * rule.width]);
    }
    keys[i] = KeyOfSum<V>(sum, rule.overflow);
  }
};

}  // namespace

LongSums SumLongRuns(Queue& queue, const BatchView& batch, const SlotRule& rule,
                     const SortedEntries& sorted) {
  LongSums long_sums;
  if (!rule.extreme() || batch.order == EntryOrder::kCanonical || sorted.size <= kLongSum) {
    return long_sums;
  }
  const uint64_t pieces = LongSumAt(sorted.size);
  const uint64_t size = pieces * rule.width;
  long_sums.keys = {queue, size};
  DeviceArray<LongRun> runs(queue, pieces);
  ForEach(queue, pieces, FindLongRuns{batch, sorted, runs.data()});
  WithValueType(rule.type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    DeviceArray<ExactSum<V>> sums(queue, size);
    ForEach(queue, size, SumPieces<V>{batch, sorted, runs.data(), sums.data()});
    uint64_t stride = 1;
    for (; stride * kGroup < pieces; stride *= kGroup) {
      ForEach(queue, size, JoinGroups<V>{rule.width, runs.data(), stride, sums.data()});
    }
    ForEach(queue, size,
            WriteKeys<V>{rule, runs.data(), stride, sums.data(), long_sums.keys.data()});
  });
  return long_sums;
}

}  // namespace sparseagg::gpu

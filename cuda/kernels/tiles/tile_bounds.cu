// In: a batch of sorted updates. Out: rows [tiles] and entries [tiles, num_updates].
//
// The index space is cut at the multiples of rows_max, and where more than samples_max samples lie
// between two of them, at quantiles of the samples. Samples are every 64th entry of the batch, so
// that a part where updates are dense is cut more often, for any update. Then one thread for each
// tile and update finds the update's first entry in it by binary search; neighbouring threads
// search for neighbouring tiles in one update, and share most of what they read. Bytes an entry:
// 1/64 of (32 to read a sample, 16 for each 8 bits of the row to sort it); for each tile and update
// a sector of 32 or two that no neighbour has read, and 4 to write.
#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/launch/scan.h"
#include "cuda/kernels/launch/search.cuh"
#include "cuda/kernels/slots.cuh"
#include "cuda/kernels/sort/device_sort.h"
#include "cuda/kernels/tiles/tile_bounds.h"

namespace sparseagg::gpu {
namespace {

constexpr uint64_t kWarpTiles = 32;

struct Samples {
  const uint64_t* rows;  // sorted
  uint64_t size;
};

struct SampleRows {
  BatchView batch;
  uint64_t* rows;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint64_t middle = i * kEntriesOfSample + kEntriesOfSample / 2;
    const uint64_t e = middle < batch.nnz ? middle : batch.nnz - 1;
    const UpdateRef& update = batch.updates[SourceOf(batch, e)];
    rows[i] = update.rows[e - update.first];
  }
};

// The samples of a span, the rows between two multiples of rows_max.
struct Span {
  uint64_t begin;  // the first sample
  uint64_t samples;
  uint64_t tiles;
};
SPARSEAGG_HOST_DEVICE inline Span SpanOf(const Samples& samples, const TileShape& shape,
                                         uint64_t span) {
  const uint64_t row = span * shape.rows_max;
  const uint64_t begin = LowerBound(samples.rows, samples.size, row);
  const uint64_t size =
      LowerBound(samples.rows + begin, samples.size - begin, row + shape.rows_max);
  const uint64_t tiles = (size + shape.samples_max - 1) / shape.samples_max;
  return {begin, size, tiles == 0 ? 1 : tiles};
}

struct CountTiles {
  Samples samples;
  TileShape shape;
  uint64_t spans;
  uint64_t* counts;  // [spans + 1]
  SPARSEAGG_DEVICE void operator()(uint64_t span) const {
    counts[span] = span < spans ? SpanOf(samples, shape, span).tiles : 0;
  }
};

struct PlaceTiles {
  Samples samples;
  TileShape shape;
  uint64_t spans;
  const uint64_t* first;  // [spans + 1]
  uint64_t* rows;

  SPARSEAGG_DEVICE void operator()(uint64_t tile) const {
    uint64_t span = 0;  // the last whose first tile is not behind this one
    for (uint64_t high = spans; high - span > 1;) {
      const uint64_t middle = span + (high - span) / 2;
      (first[middle] <= tile ? span : high) = middle;
    }
    const uint64_t i = tile - first[span];
    const Span of = SpanOf(samples, shape, span);
    rows[tile] =
        i == 0 ? span * shape.rows_max : samples.rows[of.begin + i * of.samples / of.tiles];
  }
};

struct FindEntries {
  BatchView batch;
  Count tiles;
  const uint64_t* rows;
  uint32_t* entries;  // [tiles, num_updates]

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    // 32 tiles of one update, then the same tiles of the next one; the last tiles are fewer.
    const uint32_t updates = batch.num_updates;
    const auto group = static_cast<uint32_t>(i) / (static_cast<uint32_t>(kWarpTiles) * updates);
    const uint64_t first_tile = group * kWarpTiles;
    const uint64_t left = tiles.Get() - first_tile;
    const auto group_tiles = static_cast<uint32_t>(left < kWarpTiles ? left : kWarpTiles);
    const auto of_group = static_cast<uint32_t>(i - first_tile * updates);
    const uint32_t u = of_group / group_tiles;
    const uint64_t tile = first_tile + of_group % group_tiles;
    const UpdateRef& update = batch.updates[u];
    entries[tile * updates + u] =
        static_cast<uint32_t>(LowerBound(update.rows, update.nnz, rows[tile]));
  }
};

uint64_t SamplesOf(const BatchView& batch) {
  return (batch.nnz + kEntriesOfSample - 1) / kEntriesOfSample;
}

uint64_t SpansOf(const BatchView& batch, const TileShape& shape) {
  return (batch.num_rows - 1) / shape.rows_max + 1;
}

}  // namespace

uint64_t TilesMost(const BatchView& batch, const TileShape& shape) {
  return SpansOf(batch, shape) + SamplesOf(batch) / shape.samples_max;
}

TileBounds CutIntoTiles(Queue& queue, const BatchView& batch, const TileShape& shape) {
  const uint64_t spans = SpansOf(batch, shape);
  DeviceArray<uint64_t> sampled(queue, SamplesOf(batch));
  ForEach(queue, sampled.size(), SampleRows{batch, sampled.data()});
  const int row_bits = BitsBelow(batch.num_rows);
  if (row_bits > 0) {
    SortWords(queue, sampled, static_cast<uint32_t>(sampled.size()), 0, row_bits);
  }
  const Samples samples{sampled.data(), sampled.size()};

  TileBounds bounds;
  bounds.first = {queue, spans + 1};
  ForEach(queue, spans + 1, CountTiles{samples, shape, spans, bounds.first.data()});
  ExclusiveSum(queue, bounds.first.data(), spans + 1);
  bounds.rows = {queue, TilesMost(batch, shape)};
  ForEach(queue, bounds.tiles(), 1,
          PlaceTiles{samples, shape, spans, bounds.first.data(), bounds.rows.data()});
  bounds.entries = {queue, bounds.rows.size() * batch.num_updates};
  ForEach(queue, bounds.tiles(), batch.num_updates,
          FindEntries{batch, bounds.tiles(), bounds.rows.data(), bounds.entries.data()});
  return bounds;
}

}  // namespace sparseagg::gpu

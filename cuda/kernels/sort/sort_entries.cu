// In: a batch. Out: words [nnz], or rows [nnz] and entry numbers [nnz], sorted by row, stable.
//
// One thread an entry packs a word, the row above the entry's number; the sort runs over the row's
// bits only and is stable, so entries of a row stay in the order of the batch.
// Bytes an entry: 16 to pack, 16 for each 8 bits of the row (24 as pairs).
#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/slots.cuh"
#include "cuda/kernels/sort/device_sort.h"
#include "cuda/kernels/sort/sort_entries.h"

namespace sparseagg::gpu {
namespace {

struct Pack {
  BatchView batch;
  int entry_bits;
  uint64_t* words;

  SPARSEAGG_DEVICE void operator()(uint64_t e) const {
    const UpdateRef& update = batch.updates[SourceOf(batch, e)];
    words[e] = (update.rows[e - update.first] << entry_bits) | e;
  }
};

}  // namespace

SortedArrays SortEntries(Queue& queue, const BatchView& batch) {
  const int row_bits = BitsBelow(batch.num_rows);
  const int entry_bits = BitsBelow(batch.nnz);
  const auto size = static_cast<uint32_t>(batch.nnz);
  SortedArrays sorted;
  sorted.rows = {queue, batch.nnz};
  if (row_bits + entry_bits <= 64) {
    ForEach(queue, batch.nnz, Pack{batch, entry_bits, sorted.rows.data()});
    if (row_bits > 0) SortWords(queue, sorted.rows, size, entry_bits, entry_bits + row_bits);
    sorted.view = {sorted.rows.data(), nullptr, batch.nnz, entry_bits};
  } else {
    sorted.entries = {queue, batch.nnz};
    FlattenRows(queue, batch, sorted.rows.data(), sorted.entries.data());
    SortRows(queue, sorted.rows, sorted.entries, size, row_bits);
    sorted.view = {sorted.rows.data(), sorted.entries.data(), batch.nnz};
  }
  return sorted;
}

}  // namespace sparseagg::gpu

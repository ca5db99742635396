// A batch: the updates that are folded in together, cut into pieces that are sorted on their own.
#ifndef SPARSEAGG_CPU_BATCH_H_
#define SPARSEAGG_CPU_BATCH_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "sparse/backend.h"

namespace sparseagg {

// An accepted update that waits to be folded in.
struct PendingUpdate {
  StagedUpdate staged;
  float weight = 1.0f;
};

// Entries [begin, begin + size) of one update, readable in ascending order of their rows.
struct Piece {
  uint32_t update = 0;  // position in the batch
  uint64_t begin = 0;
  uint32_t size = 0;
  std::vector<uint32_t> order;  // ascending by row; empty when the entries already are

  // Position within the update of the i-th entry in ascending order of rows.
  uint64_t Entry(uint32_t i) const { return begin + (order.empty() ? i : order[i]); }
};

// Makes `piece` readable in order. Entries of equal rows keep their order.
inline void SortPiece(const CooView& entries, Piece& piece) {
  const uint64_t* rows = entries.indices + piece.begin;
  if (std::is_sorted(rows, rows + piece.size)) return;
  piece.order.resize(piece.size);
  std::iota(piece.order.begin(), piece.order.end(), 0u);
  std::sort(piece.order.begin(), piece.order.end(), [rows](uint32_t a, uint32_t b) {
    return rows[a] != rows[b] ? rows[a] < rows[b] : a < b;
  });
}

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_BATCH_H_

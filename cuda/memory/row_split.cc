#include "cuda/memory/row_split.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "cuda/error.h"

namespace sparseagg::gpu {
namespace {

// The entries for whose rows `take` holds.
template <class Take>
PendingUpdate Select(const PendingUpdate& update, uint64_t nnz, const Take& take) {
  const CooView from = update.staged.entries.view();
  const size_t row_bytes = from.layout.row_bytes();
  auto staged = StageOnHeap(from.layout, nnz);
  if (!staged.ok()) throw std::bad_alloc();
  uint64_t at = 0;
  for (uint64_t e = 0; e < from.nnz; ++e) {
    if (!take(from.rows.wide()[e])) continue;
    staged->entries.rows.wide()[at] = from.rows.wide()[e];
    std::memcpy(static_cast<std::byte*>(staged->entries.values) + at * row_bytes,
                static_cast<const std::byte*>(from.values) + e * row_bytes, row_bytes);
    ++at;
  }
  staged->order = update.staged.order;
  return {*std::move(staged), update.weight};
}

}  // namespace

std::vector<PendingUpdate> SplitByRow(PendingUpdate update) {
  const CooView entries = update.staged.entries.view();
  std::vector<uint64_t> rows(entries.rows.wide(), entries.rows.wide() + entries.nnz);
  const auto middle_at = rows.begin() + static_cast<std::ptrdiff_t>(rows.size() / 2);
  std::nth_element(rows.begin(), middle_at, rows.end());
  uint64_t middle = *middle_at;
  const auto below = [&](uint64_t row) { return row < middle; };
  auto low = static_cast<uint64_t>(std::count_if(rows.begin(), rows.end(), below));
  if (low == 0) {
    // More than half are of the lowest row: it goes alone.
    ++middle;
    low = static_cast<uint64_t>(std::count_if(rows.begin(), rows.end(), below));
    if (low == rows.size()) throw CudaError(cudaErrorMemoryAllocation, "one row of an update");
  }
  std::vector<PendingUpdate> parts;
  parts.push_back(Select(update, low, below));
  parts.push_back(Select(update, rows.size() - low, [&](uint64_t row) { return row >= middle; }));
  return parts;
}

}  // namespace sparseagg::gpu

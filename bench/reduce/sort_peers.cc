#include <tbb/global_control.h>
#include <tbb/parallel_sort.h>

#include <algorithm>
#include <vector>

#include "bench/reduce/peers.h"
#include "bench/reduce/stopwatch.h"

namespace sparseagg::bench {
namespace {

// `Payload` is the value itself where rows are single values, else the entry's position.
template <class Payload>
struct Entry {
  uint64_t row;
  Payload payload;
  friend bool operator<(const Entry& a, const Entry& b) { return a.row < b.row; }
};

template <class Payload, class Sort>
PeerRun SortAndReduce(const CaseView& updates, const Sort& sort) {
  const uint64_t width = updates.layout.row_width;
  const Stopwatch timed;
  std::vector<Entry<Payload>> entries(updates.entries());
  for (uint64_t e = 0; e < entries.size(); ++e) {
    entries[e].row = updates.rows[e];
    if constexpr (std::is_same_v<Payload, float>) {
      entries[e].payload = updates.values[e];
    } else {
      entries[e].payload = e;
    }
  }
  sort(entries);
  std::vector<uint64_t> rows;
  std::vector<float> values;
  for (const Entry<Payload>& entry : entries) {
    if (rows.empty() || rows.back() != entry.row) {
      rows.push_back(entry.row);
      values.resize(values.size() + width);
    }
    float* sum = &values[values.size() - width];
    if constexpr (std::is_same_v<Payload, float>) {
      *sum += entry.payload;
    } else {
      const float* from = updates.values + entry.payload * width;
      for (uint64_t v = 0; v < width; ++v) sum[v] += from[v];
    }
  }
  return {timed.Seconds(), rows.size()};
}

template <class Sort>
PeerRun ForWidth(const CaseView& updates, const Sort& sort) {
  return updates.layout.row_width == 1 ? SortAndReduce<float>(updates, sort)
                                       : SortAndReduce<uint64_t>(updates, sort);
}

}  // namespace

PeerRun RunStdSort(const CaseView& updates, uint32_t) {
  return ForWidth(updates, [](auto& entries) { std::sort(entries.begin(), entries.end()); });
}

PeerRun RunTbbSort(const CaseView& updates, uint32_t threads) {
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
  return ForWidth(updates,
                  [](auto& entries) { tbb::parallel_sort(entries.begin(), entries.end()); });
}

}  // namespace sparseagg::bench

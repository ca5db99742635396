#include "bench/reduce/peers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "bench/reduce/child.h"
#include "bench/reduce/stopwatch.h"

namespace sparseagg::bench {
namespace {

constexpr uint64_t kDenseBytesMax = uint64_t{8} << 30;  // largest dense array of the naive sum

std::string WhyNotDense(const CaseView& updates) {
  const unsigned __int128 bytes =
      static_cast<unsigned __int128>(updates.layout.num_rows) * updates.layout.row_bytes();
  return bytes <= kDenseBytesMax ? "" : "its dense array would be larger than 8 GiB";
}

std::string AlwaysFits(const CaseView&) { return ""; }

// One dense f32 array, added to in order of arrival.
PeerRun RunNaiveDense(const CaseView& updates, uint32_t) {
  const uint64_t width = updates.layout.row_width;
  const Stopwatch timed;
  std::vector<float> dense(updates.layout.num_rows * width);
  for (uint64_t e = 0; e < updates.entries(); ++e) {
    float* row = dense.data() + updates.rows[e] * width;
    const float* values = updates.values + e * width;
    for (uint64_t v = 0; v < width; ++v) row[v] += values[v];
  }
  const double seconds = timed.Seconds();
  if (std::isnan(dense[0])) std::abort();  // the array is looked at, so that it is made
  return {seconds, 0};
}

}  // namespace

std::vector<Peer> CppPeers(const std::vector<uint32_t>& threads) {
  std::vector<Peer> peers = {
      {"naive dense f32", 1, &WhyNotDense, &RunNaiveDense},
      {"std::sort + reduce", 1, &AlwaysFits, &RunStdSort},
      {"Eigen setFromTriplets", 1, &WhyNotEigen, &RunEigen},
  };
  for (const uint32_t count : threads) {
    peers.push_back({"tbb::parallel_sort + reduce", count, &AlwaysFits, &RunTbbSort});
  }
  return peers;
}

Row MeasurePeer(const Peer& peer, const CaseView& updates, int repetitions) {
  const std::string why_not = peer.why_not(updates);
  if (!why_not.empty()) return {{"skipped", why_not}};
  const uint64_t before = ResidentBytes();
  // Its input is in memory, as that of the other contenders, and counts as its memory.
  const std::vector<uint64_t> rows(updates.rows, updates.rows + updates.entries());
  const std::vector<float> values(updates.values,
                                  updates.values + updates.entries() * updates.layout.row_width);
  const uint64_t file_pages =
      ResidentBytes() - before - rows.size() * sizeof(uint64_t) - values.size() * sizeof(float);
  CaseView input = updates;
  input.rows = rows.data();
  input.values = values.data();

  ResetPeak();
  const auto [runs, peak] = RunsOf(repetitions, [&] { return peer.run(input, peer.threads); });
  std::vector<double> seconds;
  for (const PeerRun& run : runs) seconds.push_back(run.seconds);
  return {{"seconds", Median(seconds)},
          {"peak_bytes", peak - before - file_pages},
          {"nnz", runs.back().nnz}};
}

}  // namespace sparseagg::bench

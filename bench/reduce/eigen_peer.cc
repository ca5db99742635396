#include <Eigen/SparseCore>
#include <cstdlib>
#include <vector>

#include "bench/reduce/peers.h"
#include "bench/reduce/stopwatch.h"

namespace sparseagg::bench {
namespace {

// A sparse matrix of Eigen has an array as long as the index space.
constexpr uint64_t kIndexSpaceMax = 100'000'000;

}  // namespace

std::string WhyNotEigen(const CaseView& updates) {
  if (updates.layout.row_width != 1) return "it has no rows of values";
  return updates.layout.num_rows <= kIndexSpaceMax
             ? ""
             : "its array over the index space would be too large";
}

PeerRun RunEigen(const CaseView& updates, uint32_t) {
  const Stopwatch timed;
  std::vector<Eigen::Triplet<float, int32_t>> triplets;
  triplets.reserve(updates.entries());
  for (uint64_t e = 0; e < updates.entries(); ++e) {
    triplets.emplace_back(static_cast<int32_t>(updates.rows[e]), 0, updates.values[e]);
  }
  Eigen::SparseMatrix<float, Eigen::ColMajor, int32_t> sum(
      static_cast<Eigen::Index>(updates.layout.num_rows), 1);
  sum.setFromTriplets(triplets.begin(), triplets.end());
  const double seconds = timed.Seconds();
  return {seconds, static_cast<uint64_t>(sum.nonZeros())};
}

}  // namespace sparseagg::bench

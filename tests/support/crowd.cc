#include "tests/support/crowd.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace sparseagg::testing {
namespace {

using Random = std::mt19937_64;

// An odd constant: multiplying by it scatters neighbours over the index space.
constexpr uint64_t kScatter = 0x9E3779B97F4A7C15u;

uint64_t ZipfRow(uint64_t num_rows, Random& random) {
  // Each power of ten of ranks has the same number of entries: the first rank has 3 percent of all.
  const double u = static_cast<double>(random() >> 11) * 0x1p-53;
  const auto rank = static_cast<uint64_t>(std::pow(1e9, u));
  return rank * kScatter % num_rows;
}

uint64_t CornerRow(uint64_t num_rows, Random& random) {
  const uint64_t corner = std::min<uint64_t>(num_rows, uint64_t{1} << 16);
  switch (random() % 32) {
    case 0:
      return random() % num_rows;
    case 1:
    case 2:
      return num_rows - 1 - random() % corner;
    default:
      return random() % corner;
  }
}

uint64_t ClusterRow(uint64_t num_rows, Random& random) {
  constexpr uint64_t kClusters = 2000;
  constexpr uint64_t kNeighbours = 8;
  const uint64_t centre = (random() % kClusters + 1) * kScatter % num_rows;
  return std::min(num_rows - 1, centre + random() % kNeighbours);
}

uint64_t RowOf(const ReduceSpec& spec, Crowd crowd, Random& random) {
  const uint64_t num_rows = spec.layout.num_rows;
  switch (crowd) {
    case Crowd::kZipf:
      return ZipfRow(num_rows, random);
    case Crowd::kOneRow:
      return num_rows / 3;
    case Crowd::kCorner:
      return CornerRow(num_rows, random);
    case Crowd::kClusters:
      return ClusterRow(num_rows, random);
    case Crowd::kHotRow:
      return random() % 2 == 0 ? num_rows / 3 : random() % num_rows;
    default:
      return random() % num_rows;
  }
}

// Adjacent rows from a random row on, of which about every hundredth is missing.
std::vector<uint64_t> Runs(uint64_t num_rows, uint64_t nnz, Random& random) {
  std::vector<uint64_t> rows;
  const uint64_t last = num_rows - std::min(num_rows, nnz);
  for (uint64_t row = random() % (last + 1); row < num_rows && rows.size() < nnz; ++row) {
    if (random() % 100 != 0) rows.push_back(row);
  }
  return rows;
}

void Arrange(Arrival arrival, Random& random, std::vector<uint64_t>& rows) {
  if (arrival != Arrival::kRepeated) std::sort(rows.begin(), rows.end());
  if (arrival == Arrival::kCanonical || arrival == Arrival::kShuffled) {
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  }
  if (arrival == Arrival::kShuffled || arrival == Arrival::kRepeated) {
    std::shuffle(rows.begin(), rows.end(), random);
  }
}

uint64_t NnzOf(const CrowdShape& shape, uint32_t contributor) {
  if (shape.crowd != Crowd::kOneContributor) return shape.entries / shape.contributors;
  return contributor == shape.contributors / 2 ? shape.entries : contributor % 2;
}

}  // namespace

std::vector<Update> MakeCrowd(const ReduceSpec& spec, const CrowdShape& shape, uint64_t seed) {
  Random random(seed);
  std::vector<Update> updates(shape.contributors);
  for (uint32_t u = 0; u < shape.contributors; ++u) {
    Update& update = updates[u];
    const uint64_t nnz = NnzOf(shape, u);
    if (shape.crowd == Crowd::kRuns) {
      update.rows = Runs(spec.layout.num_rows, nnz, random);
    } else {
      for (uint64_t i = 0; i < nnz; ++i) update.rows.push_back(RowOf(spec, shape.crowd, random));
    }
    Arrange(shape.arrival, random, update.rows);
    update.weight = MakeWeight(spec, shape.values, random);
    // The contributor that has nearly all entries must not have weight zero.
    if (nnz == shape.entries && update.weight == 0) update.weight = 1;
    update.values =
        MakeValues(spec, update.rows.size() * spec.layout.row_width, shape.values, random);
  }
  return updates;
}

uint64_t EntriesOf(const std::vector<Update>& updates) {
  uint64_t entries = 0;
  for (const Update& update : updates) entries += update.rows.size();
  return entries;
}

const char* Name(Crowd crowd) {
  constexpr const char* kNames[] = {"uniform", "zipf",     "one_row", "one_contributor",
                                    "corner",  "clusters", "hot_row", "runs"};
  return kNames[static_cast<int>(crowd)];
}

const char* Name(Arrival arrival) {
  constexpr const char* kNames[] = {"canonical", "sorted", "shuffled", "repeated"};
  return kNames[static_cast<int>(arrival)];
}

}  // namespace sparseagg::testing

// Seeded updates of a hundred thousand entries and more, for tests of what happens beyond one
// window, one range and one task: where the rows crowd, and in which order they come.
#ifndef SPARSEAGG_TESTS_SUPPORT_CROWD_H_
#define SPARSEAGG_TESTS_SUPPORT_CROWD_H_

#include <cstdint>
#include <vector>

#include "sparse/types.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {

enum class Crowd {
  kUniform,         // all over the index space
  kZipf,            // few hot rows, many rare ones, all over the index space
  kOneRow,          // all in one row
  kOneContributor,  // one contributor has everything, the others an entry or none
  kCorner,          // the first and the last rows of the index space, and a few far from both
  kClusters,        // groups of neighbours, all over the index space
  kHotRow,          // half of all in one row, the others all over
  kRuns,            // nearly every row of a part of the index space: long runs of neighbours
};

enum class Arrival {
  kCanonical,  // sorted, no row twice in an update
  kSorted,     // sorted, rows may come again
  kShuffled,   // no row twice in an update
  kRepeated,   // shuffled, rows may come again
};

struct CrowdShape {
  Crowd crowd = Crowd::kUniform;
  Arrival arrival = Arrival::kCanonical;
  uint64_t entries = 0;  // of all updates; those that may not come again are left out
  uint32_t contributors = 7;
  Values values = Values::kNormal;
};

std::vector<Update> MakeCrowd(const ReduceSpec& spec, const CrowdShape& shape, uint64_t seed);

// Entries of all updates.
uint64_t EntriesOf(const std::vector<Update>& updates);

const char* Name(Crowd crowd);
const char* Name(Arrival arrival);

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SUPPORT_CROWD_H_

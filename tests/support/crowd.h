// Seeded updates of a hundred thousand entries and more, for tests beyond one window, one range and
// one task. They differ in where the rows are dense and in the order in which rows arrive.
#ifndef SPARSEAGG_TESTS_SUPPORT_CROWD_H_
#define SPARSEAGG_TESTS_SUPPORT_CROWD_H_

#include <cstdint>
#include <vector>

#include "sparse/types.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {

// The distribution of the entries' rows.
enum class Crowd {
  kUniform,         // all over the index space
  kZipf,            // few hot rows, many rare ones, all over the index space
  kOneRow,          // all in one row
  kOneContributor,  // one contributor has nearly all entries, the others one or none
  kCorner,          // the first and the last rows of the index space, and a few far from both
  kClusters,        // groups of adjacent rows, all over the index space
  kHotRow,          // half of the entries in one row, the others all over
  kRuns,            // nearly every row of a part of the index space: long runs of adjacent rows
};

// The order in which an update's rows arrive.
enum class Arrival {
  kCanonical,  // sorted, no row twice in an update
  kSorted,     // sorted, rows may repeat
  kShuffled,   // shuffled, no row twice in an update
  kRepeated,   // shuffled, rows may repeat
};

struct CrowdShape {
  Crowd crowd = Crowd::kUniform;
  Arrival arrival = Arrival::kCanonical;
  uint64_t entries = 0;  // of all updates; repeated rows are dropped if `arrival` forbids them
  uint32_t contributors = 7;
  Values values = Values::kNormal;
};

std::vector<Update> MakeCrowd(const ReduceSpec& spec, const CrowdShape& shape, uint64_t seed);

// Returns the number of entries of all updates.
uint64_t EntriesOf(const std::vector<Update>& updates);

const char* Name(Crowd crowd);
const char* Name(Arrival arrival);

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SUPPORT_CROWD_H_

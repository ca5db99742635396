// Brings the entries of an update into the order that an algorithm needs.
#ifndef SPARSEAGG_CPU_WINDOWED_CANONICAL_H_
#define SPARSEAGG_CPU_WINDOWED_CANONICAL_H_

#include <cstddef>
#include <vector>

#include "cpu/parallel.h"
#include "cpu/state/entries.h"
#include "sparse/backend.h"
#include "sparse/types.h"

namespace sparseagg {

// An accepted update that waits to be reduced.
struct PendingUpdate {
  StagedUpdate staged;
  float weight = 1.0f;
};

// The entries of one update, ready for the kernels.
struct Prepared {
  std::vector<Cursor> cursors;               // one, or two (see PrepareUpdate)
  std::vector<HostVector<std::byte>> owned;  // copies that the cursors point into
};

enum class Need {
  kAny,         // in any order
  kSorted,      // rows not descending
  kUniqueRows,  // rows strictly ascending, as min, max and the counting of holders need it
};

// Returns whether an update already has the order that `need` requires.
bool IsReady(const PendingUpdate& update, Need need);

// Returns a cursor over the entries of an update, in the order in which they arrived.
Cursor CursorOf(const PendingUpdate& update);

// Copies an update that is not ready into the required order. For kUniqueRows, the operator decides
// what happens to the entries of one row:
//   min, max             they are summed exactly and rounded once to the value type
//   count                the first one stays
//   mean_of_contributors a second cursor has all but the first, with the sign bit of its weight set
Prepared PrepareUpdate(const ReduceSpec& spec, const PendingUpdate& update, Need need);

// The same for each update of a batch that is not ready; the results for ready updates are empty.
// Determines the order of updates where it is unknown.
std::vector<Prepared> PrepareUpdates(const ReduceSpec& spec, Need need, Parallel& parallel,
                                     std::vector<PendingUpdate>& batch);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_WINDOWED_CANONICAL_H_

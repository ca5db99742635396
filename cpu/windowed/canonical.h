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
  kAny,        // as they came
  kSorted,     // rows not descending
  kPerUpdate,  // rows strictly ascending, as min, max and the counting of holders need it
};

// Whether an update is, as it came, what `need` asks for.
bool IsReady(const PendingUpdate& update, Need need);

// The entries of an update as they are.
Cursor CursorOf(const PendingUpdate& update);

// Brings an update that is not ready into order, as a copy. For kPerUpdate, what happens to the
// entries of one row is the operator's:
//   min, max             they are summed exactly and rounded once to the value type
//   count                the first one stays
//   mean_of_contributors a second cursor has all but the first, with the sign bit of its weight set
Prepared PrepareUpdate(const ReduceSpec& spec, const PendingUpdate& update, Need need);

// The same for each update of a batch that is not ready; nothing for those that are. Finds out how
// they are ordered where that is not known.
std::vector<Prepared> PrepareUpdates(const ReduceSpec& spec, Need need, Parallel& parallel,
                                     std::vector<PendingUpdate>& batch);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_WINDOWED_CANONICAL_H_

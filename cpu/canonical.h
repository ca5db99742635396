// Brings the entries of an update into the order that an algorithm needs.
#ifndef SPARSEAGG_CPU_CANONICAL_H_
#define SPARSEAGG_CPU_CANONICAL_H_

#include <cstddef>
#include <vector>

#include "cpu/entries.h"
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

// The cursors of an update as it is, when that is all that `need` asks.
bool IsReady(const PendingUpdate& update, Need need);

// Brings an update into order; copies it unless IsReady(). For kPerUpdate, what happens to the
// entries of one row is the operator's:
//   min, max             they are summed exactly and rounded once to the value type
//   count                the first one stays
//   mean_of_contributors a second cursor has all but the first, with the sign bit of its weight set
Prepared PrepareUpdate(const ReduceSpec& spec, const PendingUpdate& update, Need need);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_CANONICAL_H_

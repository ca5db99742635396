// The first commit of a process that opens the store.
#ifndef SPARSEAGG_SERVICE_STORE_BEGIN_EPOCH_H_
#define SPARSEAGG_SERVICE_STORE_BEGIN_EPOCH_H_

#include "absl/status/status.h"
#include "service/store/files/data_directory.h"
#include "service/store/ledger.h"
#include "service/store/tables.h"

namespace sparseagg {

// Stores that the next epoch has begun, and empties the log. Finds room on a full disk, so that a
// killed process starts again, answers what is stored, and refuses what is new. The errors are
// those of UpdateStore.
absl::Status BeginEpoch(Tables& tables, Ledger& ledger, const DataDirectory& directory,
                        StoreEpoch& epoch);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_BEGIN_EPOCH_H_

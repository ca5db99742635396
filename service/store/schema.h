// The schema of a store's database, and its upgrade from earlier versions.
#ifndef SPARSEAGG_SERVICE_STORE_SCHEMA_H_
#define SPARSEAGG_SERVICE_STORE_SCHEMA_H_

#include "absl/status/status.h"
#include "service/store/database.h"

namespace sparseagg {

// Creates the tables of a new database, or those that an older version lacks, in one transaction.
// Returns FAILED_PRECONDITION (STORE_VERSION) for a database of a newer version, or one that is not
// a store.
absl::Status PrepareSchema(Database& database);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_SCHEMA_H_

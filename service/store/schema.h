// The tables of a store's database, and how those of an earlier version become today's.
#ifndef SPARSEAGG_SERVICE_STORE_SCHEMA_H_
#define SPARSEAGG_SERVICE_STORE_SCHEMA_H_

#include "absl/status/status.h"
#include "service/store/database.h"

namespace sparseagg {

// Makes the tables of a new database and those that an older version lacks, in one transaction.
// FAILED_PRECONDITION (STORE_VERSION) for a database that a newer version made or that is no store.
absl::Status PrepareSchema(Database& database);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_SCHEMA_H_

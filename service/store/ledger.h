// The store's data besides rounds: its id, the number of its starts, and the tombstones of erased
// rounds.
//
//   store        one row                erased never
//   tombstones   one per erased round   erased by ForgetTombstones()
#ifndef SPARSEAGG_SERVICE_STORE_LEDGER_H_
#define SPARSEAGG_SERVICE_STORE_LEDGER_H_

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/store/database.h"
#include "service/store/store.h"

namespace sparseagg {

// 32 random hexadecimal digits.
std::string NewStoreId();

// Thread-compatible. The caller makes writes within a transaction.
class Ledger {
 public:
  explicit Ledger(Database& database) : database_(database) {}

  // Returns the epoch of the last start, with number 0 for a new store. Returns DATA_LOSS
  // (STORE_CORRUPT) if its checksum is wrong.
  absl::StatusOr<StoreEpoch> LastEpoch();
  // Increments the epoch. The first epoch of a store creates its id.
  absl::Status AdvanceEpoch(StoreEpoch& epoch);
  // Gives the store a new id and keeps the number, so that clients see another store.
  absl::Status RenewId(StoreEpoch& epoch);

  // Returns all tombstones. One with a wrong checksum is marked as damaged and is kept, because it
  // still protects a name.
  absl::StatusOr<std::vector<Tombstone>> Tombstones();
  absl::Status InsertTombstone(const Tombstone& tombstone);
  absl::Status DeleteTombstones(std::chrono::system_clock::time_point erased_before);

 private:
  absl::Status Write(const StoreEpoch& epoch);

  Database& database_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_LEDGER_H_

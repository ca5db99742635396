// What the store keeps beside rounds: which store it is and how often it was started, and what is
// left of rounds that were erased.
//
//   store        one row                erased never
//   tombstones   a round that was       erased by ForgetTombstones()
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

// Thread-compatible. Writes belong into a transaction of the caller's.
class Ledger {
 public:
  explicit Ledger(Database& database) : database_(database) {}

  // The epoch of the last start; number 0 for a store that was never started. DATA_LOSS
  // (STORE_CORRUPT).
  absl::StatusOr<StoreEpoch> LastEpoch();
  // The next one; the first one of a store makes its id.
  absl::Status Raise(StoreEpoch& epoch);
  // Another id, and the same count: to clients, the store is not the one that they know.
  absl::Status Renew(StoreEpoch& epoch);

  // One whose checksum is wrong says so, and is kept: it still guards a name.
  absl::StatusOr<std::vector<Tombstone>> Tombstones();
  absl::Status InsertTombstone(const Tombstone& tombstone);
  absl::Status DeleteTombstones(std::chrono::system_clock::time_point erased_before);

 private:
  absl::Status Write(const StoreEpoch& epoch);

  Database& database_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_LEDGER_H_

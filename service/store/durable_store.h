// The store on disk. SQLite holds rounds, records of updates and small payloads; each large payload
// has a file of its own; all are in one data directory. Durable rounds survive a crash of the
// process and a loss of power. A memory store keeps the rounds of durability `memory`.
//
//   DIR/LOCK        held while a process has the directory; keeps space for a start on a full disk
//   DIR/store.db    the tables of tables.h, and SQLite's store.db-wal
//   DIR/payloads/N  long byte strings
//
// Opening the store completes what a crash interrupted. The log is checkpointed into the database
// and the directories are synced before any call is answered, because a duplicate is acknowledged
// without a write of its own. Files that no row names are deleted, and contents of ended rounds are
// erased.
#ifndef SPARSEAGG_SERVICE_STORE_DURABLE_STORE_H_
#define SPARSEAGG_SERVICE_STORE_DURABLE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "service/store/failpoints.h"
#include "service/store/store.h"
#include "service/store/task_row_store.h"

namespace sparseagg {

struct DurableStoreOptions {
  std::string directory;  // created if it does not exist
  // While the disk has fewer free bytes, new rounds and updates are refused (RESOURCE_EXHAUSTED,
  // STORE_FULL), so that rounds can still be sealed and published.
  uint64_t free_bytes_min = uint64_t{256} << 20;
  // If true, this opening increments the epoch. A tool that only reads the store sets it to false.
  bool new_epoch = true;
  // If true, the store gets a new id. Set it for a store that was restored from a copy, or is a
  // copy: its epoch alone does not show that.
  bool new_store_id = false;
  // The most bytes of a partially received payload that a crash may lose. Syncing 8 MiB takes some
  // ten milliseconds on a slow disk.
  uint64_t checkpoint_bytes = uint64_t{8} << 20;
  FailpointHook failpoints;
  // Called after each group commit of updates, on the thread that made it.
  std::function<void(size_t updates, double seconds)> on_commit = [](size_t, double) {};
};

class DurableStore : public UpdateStore, public TaskRowStore {};

// Errors: FAILED_PRECONDITION (STORE_IN_USE if another process has the directory, STORE_VERSION,
// STORE_UNUSABLE); DATA_LOSS (STORE_CORRUPT) if the database as a whole is damaged. Damage to a
// single round is reported by Rounds() and by the calls that read the round.
absl::StatusOr<std::unique_ptr<DurableStore>> OpenDurableStore(const DurableStoreOptions& options);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_DURABLE_STORE_H_

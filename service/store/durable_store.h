// The store on disk: SQLite for rounds, books and small payloads, a file for each large one, in one
// data directory. Durable rounds survive a crash of the process and a loss of power; rounds of
// durability `memory` are kept beside them by a memory store.
//
//   DIR/LOCK        held while a process has the directory
//   DIR/store.db    the tables of tables.h, and SQLite's store.db-wal
//   DIR/payloads/N  long byte strings
//
// Opening it finishes what a crash left undone: the log is emptied into the database and the
// directories are synced before anything is answered, since a duplicate is acknowledged without a
// write of its own; files that no row names are deleted, and contents of ended rounds erased.
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

namespace sparseagg {

struct DurableStoreOptions {
  std::string directory;  // made when it is not there
  // New rounds and updates are refused (RESOURCE_EXHAUSTED, STORE_FULL) while the disk has less
  // room, so that rounds can still be sealed and published.
  uint64_t free_bytes_min = uint64_t{256} << 20;
  // Whether this opening counts as a start. Not for one that only looks.
  bool new_epoch = true;
  // Whether the store gets another id. For one that was set back to a copy, or is one: its count of
  // starts cannot tell that.
  bool new_store_id = false;
  // How much of a payload that arrives bit by bit a crash may cost. Syncing 8 MiB takes some ten
  // milliseconds on a slow disk.
  uint64_t checkpoint_bytes = uint64_t{8} << 20;
  FailpointHook failpoints;
  // Called after each commit of updates, by the thread that made it.
  std::function<void(size_t updates, double seconds)> on_commit = [](size_t, double) {};
};

// FAILED_PRECONDITION: STORE_IN_USE by another process, STORE_VERSION, STORE_UNUSABLE; DATA_LOSS
// (STORE_CORRUPT) when the database as a whole is damaged. Damage of a single round is found by
// Rounds() and the calls that read it.
absl::StatusOr<std::unique_ptr<UpdateStore>> OpenDurableStore(const DurableStoreOptions& options);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_DURABLE_STORE_H_

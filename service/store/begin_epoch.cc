#include "service/store/begin_epoch.h"

namespace sparseagg {

absl::Status BeginEpoch(Tables& tables, Ledger& ledger, const DataDirectory& directory,
                        StoreEpoch& epoch) {
  StoreEpoch next;
  const auto begin = [&] {
    next = epoch;
    return tables.Transact([&] { return ledger.AdvanceEpoch(next); });
  };
  absl::Status begun = begin();
  if (absl::IsResourceExhausted(begun)) {
    tables.Checkpoint().IgnoreError();  // the log of the last process takes space, perhaps
    begun = begin();
  }
  if (absl::IsResourceExhausted(begun)) {
    directory.FreeReserve();
    begun = begin();
  }
  if (!begun.ok()) return begun;
  epoch = next;
  // Where the database has no room for it the log stays, which the commit has synced.
  const absl::Status emptied = tables.Checkpoint();
  directory.KeepReserve();
  return absl::IsResourceExhausted(emptied) ? absl::OkStatus() : emptied;
}

}  // namespace sparseagg

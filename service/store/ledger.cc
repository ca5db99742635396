#include "service/store/ledger.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/store/checksums/row_checksum.h"
#include "service/store/store_errors.h"

namespace sparseagg {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

int64_t ChecksumOf(const StoreEpoch& epoch) {
  return RowChecksum().Bytes(epoch.store_id).Integer(epoch.epoch).value();
}

int64_t ToMs(system_clock::time_point time) {
  return std::chrono::floor<milliseconds>(time.time_since_epoch()).count();
}

int64_t ChecksumOf(const Tombstone& tombstone) {
  return RowChecksum()
      .Bytes(tombstone.round)
      .Integer(static_cast<uint64_t>(tombstone.ended))
      .Integer(static_cast<uint64_t>(ToMs(tombstone.erased)))
      .value();
}

}  // namespace

std::string NewStoreId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&id, absl::Hex(random(), absl::kZeroPad8));
  return id;
}

absl::StatusOr<StoreEpoch> Ledger::LastEpoch() {
  Query row(database_, "SELECT store_id, epoch, crc32c FROM store");
  SPARSEAGG_ASSIGN_OR_RETURN(const bool found, row.Step());
  StoreEpoch epoch;
  if (!found) return epoch;
  epoch.store_id = row.blob(0);
  epoch.epoch = static_cast<uint64_t>(row.integer(1));
  if (ChecksumOf(epoch) != row.integer(2)) return StoreCorrupt("the store's epoch is damaged");
  return epoch;
}

absl::Status Ledger::AdvanceEpoch(StoreEpoch& epoch) {
  if (epoch.store_id.empty()) epoch.store_id = NewStoreId();
  ++epoch.epoch;
  return Write(epoch);
}

absl::Status Ledger::RenewId(StoreEpoch& epoch) {
  epoch.store_id = NewStoreId();
  return Write(epoch);
}

absl::Status Ledger::Write(const StoreEpoch& epoch) {
  Query query(database_,
              "INSERT OR REPLACE INTO store(id, store_id, epoch, crc32c) VALUES(1, ?, ?, ?)");
  return query.Text(epoch.store_id)
      .Integer(static_cast<int64_t>(epoch.epoch))
      .Integer(ChecksumOf(epoch))
      .Done();
}

absl::StatusOr<std::vector<Tombstone>> Ledger::Tombstones() {
  std::vector<Tombstone> tombstones;
  Query row(database_, "SELECT round, phase, erased_ms, crc32c FROM tombstones ORDER BY round");
  while (true) {
    SPARSEAGG_ASSIGN_OR_RETURN(const bool found, row.Step());
    if (!found) return tombstones;
    Tombstone& tombstone = tombstones.emplace_back();
    tombstone.round = row.blob(0);
    tombstone.ended = static_cast<RoundPhase>(row.integer(1));
    tombstone.erased = system_clock::time_point(milliseconds(row.integer(2)));
    tombstone.damaged = ChecksumOf(tombstone) != row.integer(3);
  }
}

absl::Status Ledger::InsertTombstone(const Tombstone& tombstone) {
  Query query(database_,
              "INSERT OR REPLACE INTO tombstones(round, phase, erased_ms, crc32c) "
              "VALUES(?, ?, ?, ?)");
  return query.Text(tombstone.round)
      .Integer(static_cast<int64_t>(tombstone.ended))
      .Integer(ToMs(tombstone.erased))
      .Integer(ChecksumOf(tombstone))
      .Done();
}

absl::Status Ledger::DeleteTombstones(system_clock::time_point erased_before) {
  Query query(database_, "DELETE FROM tombstones WHERE erased_ms < ?");
  return query.Integer(ToMs(erased_before)).Done();
}

}  // namespace sparseagg

#include "service/store/tables.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/store/checksums/crc32c.h"
#include "service/store/checksums/row_checksum.h"
#include "service/store/store_errors.h"

namespace sparseagg {
namespace {

int64_t ChecksumOf(int64_t id, const RoundRecord& round) {
  return RowChecksum()
      .Integer(static_cast<uint64_t>(id))
      .Bytes(round.name)
      .Integer(static_cast<uint64_t>(round.phase))
      .Bytes(round.description)
      .Bytes(round.details)
      .value();
}

int64_t ChecksumOf(int64_t round, const UpdateRecord& update) {
  return RowChecksum()
      .Integer(static_cast<uint64_t>(round))
      .Bytes(update.contributor)
      .Bytes(update.update_id)
      .Integer(std::bit_cast<uint32_t>(update.weight))
      .Bytes(update.digest)
      .Integer(update.sequence)
      .value();
}

int64_t ContentChecksum(int64_t id, std::string_view headers, uint64_t bytes, uint64_t file,
                        uint32_t payload_crc32c) {
  return RowChecksum()
      .Integer(static_cast<uint64_t>(id))
      .Bytes(headers)
      .Integer(bytes)
      .Integer(file)
      .Integer(payload_crc32c)
      .value();
}

// Bytes of free pages that are not returned to the file system: the next rounds use them first.
constexpr int64_t kFreeBytesKept = int64_t{64} << 20;

absl::Status Damaged(std::string_view what) {
  return StoreCorrupt(absl::StrCat("the stored ", std::string(what), " is damaged"));
}

std::string NameOf(const UpdateRecord& update) {
  return absl::StrCat("update of contributor \"", update.contributor, "\" in round \"",
                      update.round, "\"");
}

// Columns: contributor, update_id, weight, digest, sequence, crc32c.
absl::StatusOr<UpdateRecord> RecordOf(const Query& row, int64_t round, const std::string& name) {
  UpdateRecord update;
  update.round = name;
  update.contributor = row.blob(0);
  update.update_id = row.blob(1);
  update.weight = static_cast<float>(row.real(2));
  update.digest = row.blob(3);
  update.sequence = static_cast<uint64_t>(row.integer(4));
  const int64_t crc32c = row.integer(5);
  if (ChecksumOf(round, update) == crc32c) return update;
  // SQLite stores -0 as 0, while checksum and digest are those of the accepted weight.
  if (update.weight == 0) update.weight = -0.0f;
  if (ChecksumOf(round, update) != crc32c) return Damaged(NameOf(update));
  return update;
}

}  // namespace

absl::Status Tables::Check() {
  Query query(database_, "PRAGMA quick_check(1)");
  SPARSEAGG_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (found && query.blob(0) == "ok") return absl::OkStatus();
  return StoreCorrupt(
      absl::StrCat("the database is damaged: ", found ? std::string(query.blob(0)) : "no answer"));
}

absl::Status Tables::Checkpoint() {
  Query query(database_, "PRAGMA wal_checkpoint(TRUNCATE)");
  SPARSEAGG_RETURN_IF_ERROR(query.Step().status());
  failpoints_.Pass(Failpoint::kLogEmptied);
  return absl::OkStatus();
}

absl::StatusOr<bool> Tables::Shrink() {
  const auto free_bytes = [this]() -> absl::StatusOr<int64_t> {
    Query query(database_,
                "SELECT f.freelist_count * p.page_size FROM pragma_freelist_count f, "
                "pragma_page_size p");
    SPARSEAGG_RETURN_IF_ERROR(query.Step().status());
    return query.integer(0);
  };
  SPARSEAGG_ASSIGN_OR_RETURN(const int64_t before, free_bytes());
  if (before <= kFreeBytesKept) return false;
  // Databases of the first versions have no pointer map, so their free pages stay.
  SPARSEAGG_RETURN_IF_ERROR(database_.Run("PRAGMA incremental_vacuum(256)"));
  SPARSEAGG_ASSIGN_OR_RETURN(const int64_t after, free_bytes());
  return after < before;
}

absl::Status Tables::Transact(const std::function<absl::Status()>& work) {
  SPARSEAGG_RETURN_IF_ERROR(database_.Run("BEGIN IMMEDIATE"));
  absl::Status status = failpoints_.Check(Failpoint::kTransactionBegun);
  if (status.ok()) status = work();
  if (status.ok()) status = failpoints_.Check(Failpoint::kRowsWritten);
  if (status.ok()) status = database_.Run("COMMIT");
  if (!status.ok()) {
    database_.Rollback();
    return status;
  }
  check_in_place_();
  failpoints_.Pass(Failpoint::kCommitted);
  return absl::OkStatus();
}

absl::StatusOr<BlobRef> Tables::StoreBlob(std::span<const std::string_view> pieces) {
  BlobRef blob;
  for (const std::string_view piece : pieces) {
    blob.bytes += piece.size();
    blob.payload_crc32c = Crc32c(piece, blob.payload_crc32c);
  }
  if (blob.bytes > kInlineBytesMax) {
    SPARSEAGG_ASSIGN_OR_RETURN(blob.file, files_.Write(pieces));
    return blob;
  }
  blob.data.reserve(blob.bytes);
  for (const std::string_view piece : pieces) blob.data.append(piece);
  return blob;
}

absl::StatusOr<std::string> Tables::Fetch(const StoredContent& content) const {
  std::string bytes = content.data;
  if (content.file != 0) {
    SPARSEAGG_ASSIGN_OR_RETURN(bytes, files_.Read(content.file, content.bytes));
  }
  if (bytes.size() != content.bytes ||
      ContentChecksum(content.id, content.headers, content.bytes, content.file, Crc32c(bytes)) !=
          content.crc32c) {
    return Damaged(content.what);
  }
  return bytes;
}

// --- Rounds ---

absl::StatusOr<int64_t> Tables::InsertRound(const RoundRecord& round) {
  int64_t id = 0;
  {
    Query query(database_,
                "INSERT INTO rounds(name, phase, description, details, crc32c) "
                "VALUES(?, ?, ?, ?, 0)");
    SPARSEAGG_RETURN_IF_ERROR(query.Text(round.name)
                                  .Integer(static_cast<int64_t>(round.phase))
                                  .Blob(round.description)
                                  .Blob(round.details)
                                  .Done());
    id = database_.last_insert_id();
  }
  SPARSEAGG_RETURN_IF_ERROR(ChangeRound(id, round));
  return id;
}

absl::Status Tables::ChangeRound(int64_t id, const RoundRecord& round) {
  Query query(database_, "UPDATE rounds SET phase = ?, details = ?, crc32c = ? WHERE id = ?");
  return query.Integer(static_cast<int64_t>(round.phase))
      .Blob(round.details)
      .Integer(ChecksumOf(id, round))
      .Integer(id)
      .Done();
}

absl::StatusOr<std::vector<StoredRound>> Tables::Rounds() {
  std::vector<StoredRound> rounds;
  Query row(database_,
            "SELECT id, name, phase, description, details, crc32c FROM rounds ORDER BY id");
  while (true) {
    SPARSEAGG_ASSIGN_OR_RETURN(const bool found, row.Step());
    if (!found) return rounds;
    StoredRound round;
    round.id = row.integer(0);
    round.record = {.name = std::string(row.blob(1)),
                    .durability = Durability::kDurable,
                    .phase = static_cast<RoundPhase>(row.integer(2)),
                    .description = std::string(row.blob(3)),
                    .details = std::string(row.blob(4))};
    if (ChecksumOf(round.id, round.record) != row.integer(5)) {
      round.record.damage = absl::StrCat("the row of round \"", round.record.name, "\" is damaged");
    }
    rounds.push_back(std::move(round));
  }
}

absl::Status Tables::MarkDeleted(int64_t id) {
  const RoundRecord deleted{.name = absl::StrCat("deleted/", id),  // no round has such a name
                            .durability = Durability::kDurable,
                            .phase = RoundPhase::kDeleted};
  Query query(database_,
              "UPDATE rounds SET name = ?, phase = ?, description = x'', details = x'', crc32c = ? "
              "WHERE id = ?");
  return query.Text(deleted.name)
      .Integer(static_cast<int64_t>(deleted.phase))
      .Integer(ChecksumOf(id, deleted))
      .Integer(id)
      .Done();
}

absl::Status Tables::DeleteRound(int64_t id) {
  Query result(database_, "DELETE FROM results WHERE round = ?");
  SPARSEAGG_RETURN_IF_ERROR(result.Integer(id).Done());
  Query round(database_, "DELETE FROM rounds WHERE id = ?");
  return round.Integer(id).Done();
}

// --- Updates ---

absl::Status Tables::InsertUpdate(int64_t round, const UpdateRecord& update,
                                  std::string_view headers, const BlobRef& payload) {
  int64_t id = 0;
  {
    Query query(database_,
                "INSERT INTO updates(round, contributor, update_id, weight, digest, sequence, "
                "crc32c) VALUES(?, ?, ?, ?, ?, ?, ?)");
    SPARSEAGG_RETURN_IF_ERROR(query.Integer(round)
                                  .Text(update.contributor)
                                  .Text(update.update_id)
                                  .Real(update.weight)
                                  .Blob(update.digest)
                                  .Integer(static_cast<int64_t>(update.sequence))
                                  .Integer(ChecksumOf(round, update))
                                  .Done());
    id = database_.last_insert_id();
  }
  Query query(database_,
              "INSERT INTO contents(id, headers, bytes, file, data, crc32c) "
              "VALUES(?, ?, ?, ?, ?, ?)");
  return query.Integer(id)
      .Blob(headers)
      .Integer(static_cast<int64_t>(payload.bytes))
      .Integer(static_cast<int64_t>(payload.file))
      .Blob(payload.data)
      .Integer(ContentChecksum(id, headers, payload.bytes, payload.file, payload.payload_crc32c))
      .Done();
}

absl::Status Tables::ReadRecords(int64_t round, const std::string& name,
                                 const std::function<void(UpdateRecord)>& on_record) {
  Query row(database_,
            "SELECT contributor, update_id, weight, digest, sequence, crc32c FROM updates "
            "WHERE round = ? ORDER BY id");
  row.Integer(round);
  while (true) {
    SPARSEAGG_ASSIGN_OR_RETURN(const bool found, row.Step());
    if (!found) return absl::OkStatus();
    SPARSEAGG_ASSIGN_OR_RETURN(UpdateRecord update, RecordOf(row, round, name));
    on_record(std::move(update));
  }
}

absl::StatusOr<std::vector<int64_t>> Tables::UpdateRows(int64_t round) {
  std::vector<int64_t> rows;
  // SQLite reads the index `contributors` alone, in its order.
  Query row(database_, "SELECT id FROM updates WHERE round = ?");
  row.Integer(round);
  while (true) {
    SPARSEAGG_ASSIGN_OR_RETURN(const bool found, row.Step());
    if (!found) break;
    rows.push_back(row.integer(0));
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

absl::Status Tables::ReadUpdate(int64_t row, int64_t round, StoredUpdate& update) {
  Query query(database_,
              "SELECT u.contributor, u.update_id, u.weight, u.digest, u.sequence, u.crc32c, "
              "c.headers, c.bytes, c.file, c.data, c.crc32c "
              "FROM updates u LEFT JOIN contents c ON c.id = u.id WHERE u.id = ?");
  SPARSEAGG_ASSIGN_OR_RETURN(const bool found, query.Integer(row).Step());
  if (!found) return Damaged(absl::StrCat("row ", row, " of round \"", update.record.round, "\""));
  SPARSEAGG_ASSIGN_OR_RETURN(update.record, RecordOf(query, round, update.record.round));
  if (query.is_null(6)) return Damaged(NameOf(update.record));
  update.content = {.id = row,
                    .headers = std::string(query.blob(6)),
                    .bytes = static_cast<uint64_t>(query.integer(7)),
                    .file = static_cast<uint64_t>(query.integer(8)),
                    .data = std::string(query.blob(9)),
                    .crc32c = query.integer(10),
                    .what = NameOf(update.record)};
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ContentLocation>> Tables::Contents(int64_t round) {
  std::vector<ContentLocation> places;
  Query row(database_,
            "SELECT c.id, c.file, c.bytes FROM updates u JOIN contents c ON c.id = u.id "
            "WHERE u.round = ?");
  row.Integer(round);
  while (true) {
    SPARSEAGG_ASSIGN_OR_RETURN(const bool found, row.Step());
    if (!found) return places;
    ContentLocation& place = places.emplace_back();
    place.update = row.integer(0);
    place.file = static_cast<uint64_t>(row.integer(1));
    if (place.file == 0) place.inline_bytes = static_cast<uint64_t>(row.integer(2));
  }
}

absl::Status Tables::DeleteContents(std::span<const ContentLocation> places) {
  for (const ContentLocation& place : places) {
    Query query(database_, "DELETE FROM contents WHERE id = ?");
    SPARSEAGG_RETURN_IF_ERROR(query.Integer(place.update).Done());
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Tables::DeleteUpdates(int64_t round, int64_t most) {
  Query query(database_,
              "DELETE FROM updates WHERE id IN (SELECT id FROM updates WHERE round = ? LIMIT ?)");
  SPARSEAGG_RETURN_IF_ERROR(query.Integer(round).Integer(most).Done());
  return database_.changes() == most;
}

// --- Results ---

absl::Status Tables::InsertResult(int64_t round, const BlobRef& result) {
  Query query(database_,
              "INSERT INTO results(round, bytes, file, data, crc32c) VALUES(?, ?, ?, ?, ?)");
  return query.Integer(round)
      .Integer(static_cast<int64_t>(result.bytes))
      .Integer(static_cast<int64_t>(result.file))
      .Blob(result.data)
      .Integer(ContentChecksum(round, {}, result.bytes, result.file, result.payload_crc32c))
      .Done();
}

absl::StatusOr<StoredContent> Tables::ReadResult(int64_t round) {
  Query row(database_, "SELECT bytes, file, data, crc32c FROM results WHERE round = ?");
  SPARSEAGG_ASSIGN_OR_RETURN(const bool found, row.Integer(round).Step());
  if (!found) return Damaged("result");
  return StoredContent{.id = round,
                       .bytes = static_cast<uint64_t>(row.integer(0)),
                       .file = static_cast<uint64_t>(row.integer(1)),
                       .data = std::string(row.blob(2)),
                       .crc32c = row.integer(3),
                       .what = "result"};
}

absl::StatusOr<uint64_t> Tables::ResultFile(int64_t round) {
  Query row(database_, "SELECT file FROM results WHERE round = ?");
  SPARSEAGG_ASSIGN_OR_RETURN(const bool found, row.Integer(round).Step());
  return found ? static_cast<uint64_t>(row.integer(0)) : 0;
}

absl::StatusOr<std::vector<uint64_t>> Tables::Files() {
  std::vector<uint64_t> files;
  Query row(database_,
            "SELECT file FROM contents WHERE file > 0 UNION SELECT file FROM results "
            "WHERE file > 0 ORDER BY file");
  while (true) {
    SPARSEAGG_ASSIGN_OR_RETURN(const bool found, row.Step());
    if (!found) return files;
    files.push_back(static_cast<uint64_t>(row.integer(0)));
  }
}

}  // namespace sparseagg

#include "service/store/database.h"

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/store/files/fatal.h"
#include "service/store/store_errors.h"

namespace sparseagg {
namespace {

// SQLite reports an exhausted quota as an I/O error. The transaction is rolled back then; after a
// failed sync the content of the disk is unknown.
bool IsFullDisk(int code, int error) {
  return code == SQLITE_IOERR_WRITE && (error == ENOSPC || error == EDQUOT);
}

// For a new database: Tables::Shrink() can return the pages of deleted rounds to the file system.
constexpr const char* kIncrementalVacuum = "PRAGMA auto_vacuum=INCREMENTAL";
constexpr int64_t kIsIncremental = 2;

// With WAL and synchronous=FULL, a commit is one append and one fsync. EXCLUSIVE must be set first:
// it needs no shared memory and refuses a second process.
constexpr const char* kPragmas[] = {
    "PRAGMA locking_mode=EXCLUSIVE",
    // For a new database: an update of 64 KB is 4 pages to copy, checksum and write, not 16.
    "PRAGMA page_size=16384",
    kIncrementalVacuum,
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    // The unit is KiB. A group of 64 updates of 64 KB stays in memory until its commit.
    "PRAGMA cache_size=-32768",
    "PRAGMA cell_size_check=ON",
    "PRAGMA trusted_schema=OFF",
    "PRAGMA foreign_keys=OFF",
    // Deleted bytes are overwritten, so that raw updates do not outlive their round.
    "PRAGMA secure_delete=ON",
};

// The log is checkpointed into the database when it has this many bytes.
constexpr int64_t kLogBytes = int64_t{8} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path) {
  sqlite3* connection = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(path.c_str(), &connection, flags, nullptr);
  std::unique_ptr<Database> database(new Database(connection));
  if (code != SQLITE_OK) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "STORE_UNUSABLE",
                     absl::StrCat("cannot open ", path, ": ", sqlite3_errstr(code)));
  }
  sqlite3_extended_result_codes(connection, 1);
  sqlite3_db_config(connection, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  SPARSEAGG_RETURN_IF_ERROR(database->Configure());
  return database;
}

Database::~Database() {
  for (const auto& [sql, statement] : prepared_) sqlite3_finalize(statement);
  sqlite3_close(connection_);
}

absl::Status Database::Configure() {
  for (const char* pragma : kPragmas) {
    if (pragma == kIncrementalVacuum) {
      Query mode(*this, "PRAGMA auto_vacuum");
      SPARSEAGG_RETURN_IF_ERROR(mode.Step().status());
      // Setting it again would write, for which a full disk has no room.
      if (mode.integer(0) == kIsIncremental) continue;
    }
    SPARSEAGG_RETURN_IF_ERROR(Run(pragma));
  }
  Query page_size(*this, "PRAGMA page_size");
  SPARSEAGG_RETURN_IF_ERROR(page_size.Step().status());
  sqlite3_wal_autocheckpoint(connection_, static_cast<int>(kLogBytes / page_size.integer(0)));
  return absl::OkStatus();
}

absl::Status Database::Run(const char* sql) {
  const int code = sqlite3_exec(connection_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : ErrorOf(code);
}

void Database::Rollback() {
  if (sqlite3_get_autocommit(connection_) == 0) Run("ROLLBACK").IgnoreError();
}

absl::StatusOr<sqlite3_stmt*> Database::Prepare(const char* sql) {
  sqlite3_stmt*& statement = prepared_[sql];
  if (statement == nullptr) {
    const int code =
        sqlite3_prepare_v3(connection_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (code != SQLITE_OK) return ErrorOf(code);
  }
  return statement;
}

absl::Status Database::ErrorOf(int code) const {
  const int error = errno;  // of the write; SQLite 3.40 does not report that of a commit
  const std::string message = sqlite3_errmsg(connection_);
  switch (code & 0xFF) {
    case SQLITE_FULL:
      return StoreFull();
    case SQLITE_IOERR:
      if (IsFullDisk(code, error)) return StoreFull();
      EndProcess("database", absl::StrCat(message, " (", sqlite3_errstr(code), ", ", code, ")"));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return StoreCorrupt(absl::StrCat("the database is damaged: ", message));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return MakeError(absl::StatusCode::kFailedPrecondition, "STORE_IN_USE",
                       "another process has the database open");
    default:
      return MakeError(absl::StatusCode::kInternal, "STORE_ERROR",
                       absl::StrCat("database: ", message, " (", code, ")"));
  }
}

Query::Query(Database& database, const char* sql) : database_(database) {
  auto statement = database.Prepare(sql);
  status_ = statement.status();
  if (statement.ok()) statement_ = *statement;
}

Query::~Query() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

void Query::Bound(int code) {
  if (status_.ok() && code != SQLITE_OK) status_ = database_.ErrorOf(code);
}

Query& Query::Integer(int64_t value) {
  if (statement_ != nullptr) Bound(sqlite3_bind_int64(statement_, ++parameter_, value));
  return *this;
}

Query& Query::Real(double value) {
  if (statement_ != nullptr) Bound(sqlite3_bind_double(statement_, ++parameter_, value));
  return *this;
}

Query& Query::Text(std::string_view value) {
  if (statement_ == nullptr) return *this;
  Bound(sqlite3_bind_text64(statement_, ++parameter_, value.data() == nullptr ? "" : value.data(),
                            value.size(), SQLITE_STATIC, SQLITE_UTF8));
  return *this;
}

Query& Query::Blob(std::string_view value) {
  if (statement_ == nullptr) return *this;
  Bound(sqlite3_bind_blob64(statement_, ++parameter_, value.data() == nullptr ? "" : value.data(),
                            value.size(), SQLITE_STATIC));
  return *this;
}

Query& Query::Null() {
  if (statement_ != nullptr) Bound(sqlite3_bind_null(statement_, ++parameter_));
  return *this;
}

absl::StatusOr<bool> Query::Step() {
  SPARSEAGG_RETURN_IF_ERROR(status_);
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_.ErrorOf(code);
}

bool Query::is_null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

std::string_view Query::blob(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int bytes = sqlite3_column_bytes(statement_, column);
  return {static_cast<const char*>(data), data == nullptr ? 0 : static_cast<size_t>(bytes)};
}

}  // namespace sparseagg

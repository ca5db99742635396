// A wrapper of SQLite for the store: one connection, statements that are prepared once, errors as
// absl::Status.
#ifndef SPARSEAGG_SERVICE_STORE_DATABASE_H_
#define SPARSEAGG_SERVICE_STORE_DATABASE_H_

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sparseagg {

// Thread-compatible. Errors: RESOURCE_EXHAUSTED (STORE_FULL) with a time to retry after; DATA_LOSS
// (STORE_CORRUPT); INTERNAL (STORE_ERROR). An I/O error ends the process (fatal.h).
class Database {
 public:
  // Opens or creates the file. Every commit is synced to it.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Runs statements that have neither results nor parameters.
  absl::Status Run(const char* sql);
  // Rolls back the open transaction, if any.
  void Rollback();
  int64_t last_insert_id() const { return sqlite3_last_insert_rowid(connection_); }
  // Returns the number of rows that the last INSERT, UPDATE or DELETE changed.
  int64_t changes() const { return sqlite3_changes64(connection_); }

 private:
  friend class Query;
  explicit Database(sqlite3* connection) : connection_(connection) {}
  absl::Status Configure();
  absl::StatusOr<sqlite3_stmt*> Prepare(const char* sql);
  absl::Status ErrorOf(int code) const;

  sqlite3* const connection_;
  std::map<std::string_view, sqlite3_stmt*> prepared_;
};

// One execution of a statement. Each call binds the next parameter; the bytes must outlive the
// query. The first Step() returns the errors of binding.
class Query {
 public:
  Query(Database& database, const char* sql);  // `sql` must be a string literal
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  Query& Integer(int64_t value);
  Query& Real(double value);
  Query& Text(std::string_view value);
  Query& Blob(std::string_view value);
  Query& Null();

  // Returns whether there is a row to read.
  absl::StatusOr<bool> Step();
  // Executes a statement that returns no rows.
  absl::Status Done() { return Step().status(); }

  int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double real(int column) const { return sqlite3_column_double(statement_, column); }
  bool is_null(int column) const;
  // Returns a blob or text column, valid until the next Step().
  std::string_view blob(int column) const;

 private:
  void Bound(int code);

  Database& database_;
  absl::Status status_;
  sqlite3_stmt* statement_ = nullptr;
  int parameter_ = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_DATABASE_H_

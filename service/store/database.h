// SQLite, as the store uses it: one connection, statements prepared once, errors as statuses.
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
// (STORE_CORRUPT); INTERNAL (STORE_ERROR). An input or output error ends the process (fatal.h).
class Database {
 public:
  // Opens or creates the file; everything that is committed is synced to it.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Statements without results or parameters.
  absl::Status Run(const char* sql);
  // Gives up the transaction that is open, if one is.
  void Rollback();
  int64_t last_insert_id() const { return sqlite3_last_insert_rowid(connection_); }
  // Rows that the last statement that changes any has changed.
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

// One run of a statement. Parameters are bound in their order; what they point to must live until
// the query is gone. Errors of binding come with the first Step().
class Query {
 public:
  Query(Database& database, const char* sql);  // `sql`: a literal
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  Query& Integer(int64_t value);
  Query& Real(double value);
  Query& Text(std::string_view value);
  Query& Blob(std::string_view value);
  Query& Null();

  // True: there is a row to read.
  absl::StatusOr<bool> Step();
  // For a statement without rows.
  absl::Status Done() { return Step().status(); }

  int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double real(int column) const { return sqlite3_column_double(statement_, column); }
  bool is_null(int column) const;
  // Valid until the next Step(). Text, too.
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

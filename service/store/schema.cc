#include "service/store/schema.h"

#include <array>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {
namespace {

constexpr int64_t kApplicationId = 0x53414747;  // "SAGG"

// The statements that each version added. Those of a released version never change, because
// databases were made by them.
constexpr std::array kVersions = {
    // 1
    R"(
CREATE TABLE rounds(
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, phase INTEGER NOT NULL,
  description BLOB NOT NULL, details BLOB NOT NULL, crc32c INTEGER NOT NULL);
CREATE TABLE updates(
  id INTEGER PRIMARY KEY AUTOINCREMENT, round INTEGER NOT NULL, contributor TEXT NOT NULL,
  update_id TEXT NOT NULL, weight REAL NOT NULL, digest BLOB NOT NULL, sequence INTEGER NOT NULL,
  crc32c INTEGER NOT NULL);
CREATE UNIQUE INDEX contributors ON updates(round, contributor);
CREATE TABLE contents(
  id INTEGER PRIMARY KEY, headers BLOB NOT NULL, bytes INTEGER NOT NULL, file INTEGER NOT NULL,
  data BLOB NOT NULL, crc32c INTEGER NOT NULL);
CREATE TABLE results(
  round INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, file INTEGER NOT NULL, data BLOB NOT NULL,
  crc32c INTEGER NOT NULL);
PRAGMA application_id=1396787015;
PRAGMA user_version=1;
)",
    // 2: policies and kept updates (in the columns of 1), epochs, tombstones.
    R"(
CREATE TABLE store(
  id INTEGER PRIMARY KEY CHECK(id = 1), store_id TEXT NOT NULL, epoch INTEGER NOT NULL,
  crc32c INTEGER NOT NULL);
CREATE TABLE tombstones(
  round TEXT PRIMARY KEY, phase INTEGER NOT NULL, erased_ms INTEGER NOT NULL,
  crc32c INTEGER NOT NULL);
PRAGMA user_version=2;
)",
    // 3: tasks.
    R"(
CREATE TABLE tasks(
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, value BLOB NOT NULL, crc32c INTEGER NOT NULL);
PRAGMA user_version=3;
)"};
static_assert(kApplicationId == 1396787015 && kVersions.size() == 3);

absl::Status Upgrade(Database& database, size_t version) {
  absl::Status status = database.Run("BEGIN IMMEDIATE");
  for (; status.ok() && version < kVersions.size(); ++version) {
    status = database.Run(kVersions[version]);
  }
  if (status.ok()) status = database.Run("COMMIT");
  if (!status.ok()) database.Rollback();
  return status;
}

}  // namespace

absl::Status PrepareSchema(Database& database) {
  int64_t application = 0;
  int64_t version = 0;
  int64_t tables = 0;
  {
    Query query(database,
                "SELECT a.application_id, v.user_version, (SELECT count(*) FROM sqlite_schema) "
                "FROM pragma_application_id a, pragma_user_version v");
    SPARSEAGG_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (found) {
      application = query.integer(0);
      version = query.integer(1);
      tables = query.integer(2);
    }
  }
  const auto newest = static_cast<int64_t>(kVersions.size());
  if (tables == 0) return Upgrade(database, 0);
  if (application == kApplicationId && version >= 1 && version <= newest) {
    return version == newest ? absl::OkStatus() : Upgrade(database, static_cast<size_t>(version));
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, "STORE_VERSION",
                   application != kApplicationId
                       ? "the database in the data directory was not made by sparseagg"
                       : absl::StrCat("the data directory has version ", version,
                                      ", but this server reads up to ", newest,
                                      "; start the server version that wrote it"));
}

}  // namespace sparseagg

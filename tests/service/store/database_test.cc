// Errors of the disk, as the database reports them.
#include "service/store/database.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "base/status.h"
#include "tests/support/interpose.h"
#include "tests/support/temporary_folder.h"

namespace {

using sparseagg::testing::Next;

int write_error = 0;  // errno for writes to the database's log

bool Fails(int fd) {
  if (write_error == 0 || !sparseagg::testing::PathOf(fd).ends_with("-wal")) return false;
  errno = write_error;
  return true;
}

}  // namespace

// SQLite may be built for any of these.
extern "C" {

ssize_t write(int fd, const void* data, size_t bytes) {
  return Fails(fd) ? -1 : Next<decltype(write)>("write")(fd, data, bytes);
}

ssize_t pwrite64(int fd, const void* data, size_t bytes, off64_t offset) {
  return Fails(fd) ? -1 : Next<decltype(pwrite64)>("pwrite64")(fd, data, bytes, offset);
}

ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  return pwrite64(fd, data, bytes, offset);
}

}  // extern "C"

namespace sparseagg {
namespace {

TEST(DatabaseTest, AQuotaThatIsUsedUpIsAFullDisk) {
  const testing::TemporaryFolder folder;
  const auto database = Database::Open(folder.path() + "/store.db").value();
  ASSERT_TRUE(database->Run("CREATE TABLE t(x)").ok());
  for (const int error : {EDQUOT, ENOSPC}) {
    write_error = error;
    const absl::Status refused = database->Run("INSERT INTO t VALUES(1)");
    write_error = 0;
    EXPECT_EQ(ErrorReason(refused), "STORE_FULL") << refused;
    database->Rollback();
  }
  ASSERT_TRUE(database->Run("INSERT INTO t VALUES(2)").ok());
  Query rows(*database, "SELECT x FROM t");
  EXPECT_TRUE(rows.Step().value());
  EXPECT_EQ(rows.integer(0), 2);
  EXPECT_FALSE(rows.Step().value());
}

}  // namespace
}  // namespace sparseagg

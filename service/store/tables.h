// The tables of the durable store. Every row has a CRC-32C of its columns and of the bytes that it
// refers to, because SQLite does not check what it reads. A long byte string is in a file of its
// own (payload_files.h), and its row has the file's number.
//
//   rounds    a round                                     erased by EraseLeftovers()
//   updates   the records of accepted updates             erased with the round, or when aborted
//   contents  headers and payload of an update            erased when published or aborted
//   results   the result of a published round             erased with the round
//
// ledger.h and task_rows.h have the other tables.
#ifndef SPARSEAGG_SERVICE_STORE_TABLES_H_
#define SPARSEAGG_SERVICE_STORE_TABLES_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/store/database.h"
#include "service/store/failpoints.h"
#include "service/store/files/payload_files.h"
#include "service/store/store.h"

namespace sparseagg {

// Longer byte strings go to files. Above this size, the cost of the database writing everything
// twice (log and page) exceeds that of a file of its own; below it, a file costs more than it
// saves.
inline constexpr uint64_t kInlineBytesMax = uint64_t{128} << 10;

// A byte string to be inserted into a table: inline, or in a file that is already written.
struct BlobRef {
  uint64_t bytes = 0;
  uint64_t file = 0;            // 0: the bytes are in `data`
  std::string data;             // the bytes, if inline
  uint32_t payload_crc32c = 0;  // of the byte string
};

struct StoredRound {
  int64_t id = 0;
  RoundRecord record;
};

// The content of an update, or a result, as its row has it. A short byte string is in `data`, a
// long one in a file.
struct StoredContent {
  int64_t id = 0;  // row number, covered by the checksum
  std::string headers;
  uint64_t bytes = 0;
  uint64_t file = 0;
  std::string data;
  int64_t crc32c = 0;
  std::string what;  // name of the content for messages
};

// The caller sets record.round before ReadUpdate().
struct StoredUpdate {
  UpdateRecord record;
  StoredContent content;
};

// The location of an update's content.
struct ContentLocation {
  int64_t update = 0;
  uint64_t file = 0;          // 0: in the database
  uint64_t inline_bytes = 0;  // bytes in the database
};

// Thread-compatible. The caller makes writes within Transact().
class Tables {
 public:
  // `check_in_place` is called after each COMMIT. It ends the process if the next start would not
  // find the committed data.
  Tables(
      Database& database, PayloadFiles& files, FailpointHook failpoints = {},
      std::function<void()> check_in_place = [] {})
      : database_(database),
        files_(files),
        failpoints_(std::move(failpoints)),
        check_in_place_(std::move(check_in_place)) {}

  // Returns DATA_LOSS (STORE_CORRUPT) if the structure of the database is damaged.
  absl::Status Check();
  // Moves everything committed from the log into the database file and truncates the log.
  absl::Status Checkpoint();
  // Returns some free pages to the file system. Returns false once at most 64 MiB of free pages are
  // left, which are kept for the next rounds.
  absl::StatusOr<bool> Shrink();

  // Runs `work` as one transaction.
  absl::Status Transact(const std::function<absl::Status()>& work);

  // Copies a short byte string, or writes a long one to a file. Thread-safe, also concurrently with
  // the other functions.
  absl::StatusOr<BlobRef> StoreBlob(std::span<const std::string_view> pieces);

  absl::StatusOr<int64_t> InsertRound(const RoundRecord& round);
  absl::Status ChangeRound(int64_t id, const RoundRecord& round);
  absl::StatusOr<std::vector<StoredRound>> Rounds();

  absl::Status InsertUpdate(int64_t round, const UpdateRecord& update, std::string_view headers,
                            const BlobRef& payload);
  // Calls `on_record` for every accepted update of a round, in the order of acceptance. Returns
  // DATA_LOSS for a row with a wrong checksum.
  absl::Status ReadRecords(int64_t round, const std::string& name,
                           const std::function<void(UpdateRecord)>& on_record);
  // Returns the row numbers of a round's updates, ascending.
  absl::StatusOr<std::vector<int64_t>> UpdateRows(int64_t round);
  // Reads an update with its content. REQUIRES: the content is not erased.
  absl::Status ReadUpdate(int64_t row, int64_t round, StoredUpdate& update);
  absl::StatusOr<std::vector<ContentLocation>> Contents(int64_t round);
  absl::Status DeleteContents(std::span<const ContentLocation> places);
  // Deletes at most `most` updates of a round. Returns false if it has no more.
  absl::StatusOr<bool> DeleteUpdates(int64_t round, int64_t most);

  absl::Status InsertResult(int64_t round, const BlobRef& result);
  absl::StatusOr<StoredContent> ReadResult(int64_t round);
  // Reads and checks the byte string of a row. Returns DATA_LOSS (STORE_CORRUPT) if it is not what
  // was stored. Thread-safe, also concurrently with the other functions, because a file may be
  // long.
  absl::StatusOr<std::string> Fetch(const StoredContent& content) const;
  // Returns the number of the result's file, or 0.
  absl::StatusOr<uint64_t> ResultFile(int64_t round);
  // Marks a round as deleted: it loses its name, description and details.
  absl::Status MarkDeleted(int64_t id);
  // Deletes the rows of the round and of its result.
  absl::Status DeleteRound(int64_t id);

  // Returns the numbers of the files that rows name, ascending.
  absl::StatusOr<std::vector<uint64_t>> Files();

 private:
  Database& database_;
  PayloadFiles& files_;
  const FailpointHook failpoints_;
  const std::function<void()> check_in_place_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_TABLES_H_

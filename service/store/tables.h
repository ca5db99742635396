// The tables of the durable store. Every row carries a CRC-32C of its columns and of the bytes it
// stands for, since SQLite does not check what it reads. A long byte string lies in a file of its
// own (payload_files.h) and its row has the number.
//
//   rounds    a round                                     erased by EraseLeftovers()
//   updates   who was counted, with what: the books       erased with the round, or when aborted
//   contents  what an update carried                      erased when published or aborted
//   results   the result of a published round             erased with the round
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

// Longer byte strings go to files: above this the database writes everything twice (log and page)
// for nothing, below it a file of its own costs more than it saves.
inline constexpr uint64_t kInlineBytesMax = uint64_t{128} << 10;

// A byte string on its way into a table: in one piece, or in a file that is written already.
struct Placed {
  uint64_t bytes = 0;
  uint64_t file = 0;            // 0: it is `data`
  std::string data;             // when it is short
  uint32_t payload_crc32c = 0;  // of the byte string
};

struct StoredRound {
  int64_t id = 0;
  RoundRecord record;
};

// What an update carried, or a result, as its row says: the byte string itself is `data` when it is
// short, otherwise in a file.
struct StoredContent {
  int64_t id = 0;  // that its checksum covers
  std::string headers;
  uint64_t bytes = 0;
  uint64_t file = 0;
  std::string data;
  int64_t crc32c = 0;
  std::string what;  // for messages
};

// `record.round` is given.
struct StoredUpdate {
  UpdateRecord record;
  StoredContent content;
};

// Where the content of an update is.
struct ContentPlace {
  int64_t update = 0;
  uint64_t file = 0;          // 0: in the database
  uint64_t inline_bytes = 0;  // there
};

// Thread-compatible. Writes belong into a transaction of the caller's.
class Tables {
 public:
  // `check_in_place` is called after each COMMIT and does not return when what was committed is not
  // where the next start looks for it.
  Tables(
      Database& database, PayloadFiles& files, FailpointHook failpoints = {},
      std::function<void()> check_in_place = [] {})
      : database_(database),
        files_(files),
        failpoints_(std::move(failpoints)),
        check_in_place_(std::move(check_in_place)) {}

  // DATA_LOSS (STORE_CORRUPT) when the database is damaged in its structure.
  absl::Status Check();
  // Moves everything committed into the database proper and empties the log.
  absl::Status Checkpoint();
  // Gives pages that hold nothing any more back to the file system, a few at a time; false: there
  // are so few that the next rounds may have them.
  absl::StatusOr<bool> Shrink();

  // Runs `work` as one transaction.
  absl::Status Transact(const std::function<absl::Status()>& work);

  // Puts a byte string where it belongs: short ones are copied, long ones written to a file.
  // Thread-safe, also beside the rest.
  absl::StatusOr<Placed> Place(std::span<const std::string_view> pieces);

  absl::StatusOr<int64_t> InsertRound(const RoundRecord& round);
  absl::Status ChangeRound(int64_t id, const RoundRecord& round);
  absl::StatusOr<std::vector<StoredRound>> Rounds();

  absl::Status InsertUpdate(int64_t round, const UpdateRecord& update, std::string_view headers,
                            const Placed& payload);
  // The books of a round, in the order of acceptance. DATA_LOSS for a row that cannot be trusted.
  absl::Status ReadRecords(int64_t round, const std::string& name,
                           const std::function<void(UpdateRecord)>& on_record);
  // The rows of a round's updates, ascending.
  absl::StatusOr<std::vector<int64_t>> UpdateRows(int64_t round);
  // The update of that row of a round, with what it carried, which must not be erased.
  absl::Status ReadUpdate(int64_t row, int64_t round, StoredUpdate& update);
  absl::StatusOr<std::vector<ContentPlace>> Contents(int64_t round);
  absl::Status DeleteContents(std::span<const ContentPlace> places);
  // Of `most` of its updates; false: it has no more.
  absl::StatusOr<bool> DeleteUpdates(int64_t round, int64_t most);

  absl::Status InsertResult(int64_t round, const Placed& result);
  absl::StatusOr<StoredContent> ReadResult(int64_t round);
  // The byte string of a row that was read. DATA_LOSS (STORE_CORRUPT) when it is not what was
  // stored. Thread-safe, also beside the rest: a file may be long.
  absl::StatusOr<std::string> Fetch(const StoredContent& content) const;
  // The file of the result, or 0.
  absl::StatusOr<uint64_t> ResultFile(int64_t round);
  // Makes it a deleted one: without name, description and details.
  absl::Status MarkDeleted(int64_t id);
  // The row of the round and of its result.
  absl::Status DeleteRound(int64_t id);

  // Files that rows name, ascending.
  absl::StatusOr<std::vector<uint64_t>> Files();

 private:
  Database& database_;
  PayloadFiles& files_;
  const FailpointHook failpoints_;
  const std::function<void()> check_in_place_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_TABLES_H_

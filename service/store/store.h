// Where rounds and accepted updates live. The store is the only commit point: an update that Put()
// accepted is counted exactly once, and the store alone decides between accepted, duplicate and
// conflict. What a round's specification, an update's headers or a manifest say is the engine's
// business: here they are byte strings, kept and given back.
#ifndef SPARSEAGG_SERVICE_STORE_STORE_H_
#define SPARSEAGG_SERVICE_STORE_STORE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sparseagg {

// What an acknowledgement survives.
enum class Durability : uint8_t {
  kMemory = 1,   // nothing: lost with the process
  kDurable = 2,  // a crash of the process and a loss of power
};

// Where a round is, as far as the store is concerned. Numbers are on disk: they never change.
enum class RoundPhase : uint8_t {
  kOpen = 1,
  kClosed = 2,                // the accepted set is fixed
  kPublished = 3,             // the result is stored
  kAborted = 4,               // the updates are erased
  kPublishedWithUpdates = 5,  // and what the updates carried is kept
  kDeleted = 6,               // gone for everybody; what is left of it is being erased
};
constexpr bool IsPublished(RoundPhase phase) {
  return phase == RoundPhase::kPublished || phase == RoundPhase::kPublishedWithUpdates;
}

// What the updates carried is there and needed.
constexpr bool HasUpdates(RoundPhase phase) {
  return phase == RoundPhase::kOpen || phase == RoundPhase::kClosed ||
         phase == RoundPhase::kPublishedWithUpdates;
}

// A life of a store, from its opening to its end.
struct StoreEpoch {
  std::string store_id;  // of the data directory; in memory, of the process
  uint64_t epoch = 0;    // raised at every opening, from 1

  bool operator==(const StoreEpoch&) const = default;
};

// What is left of a round that was erased, so that late retries can be told.
struct Tombstone {
  std::string round;
  RoundPhase ended = RoundPhase::kAborted;
  std::chrono::system_clock::time_point erased;  // in milliseconds
  bool damaged = false;                          // set by Tombstones(): may be another round's
};

// Identity of an accepted update. Key: (round, contributor); the first accepted wins.
struct UpdateRecord {
  std::string round;
  std::string contributor;
  std::string update_id;
  float weight = 1.0f;
  std::string digest;     // SHA-256 of weight, headers and payload, 32 bytes
  uint64_t sequence = 0;  // set by Put(): order of acceptance within the round, from 1
};

// Memory that the record of an update takes in the books, as long as its round exists: 311 bytes
// measured for a million of them, with names of 20 to 40 bytes.
inline constexpr uint64_t kRecordBytes = 320;

// A long payload that arrives bit by bit, on stable storage as far as possible. Not an update until
// Put() has accepted it. One thread at a time; kept for the next TakePartial() when it goes.
class PartialPayload {
 public:
  virtual ~PartialPayload() = default;
  virtual uint64_t total_bytes() const = 0;
  virtual uint64_t bytes() const = 0;  // that are there
  // All of `data` or, on an error, nothing. RESOURCE_EXHAUSTED (STORE_FULL), UNAVAILABLE
  // (STORE_BUSY); ABORTED (UPLOAD_LOST), which Put() and TakePartial() may answer, too, when a sync
  // has failed: it is discarded. REQUIRES: no more than total_bytes() in all; not discarded.
  virtual absl::Status Append(std::span<const std::string_view> data) = 0;
  absl::Status Append(std::string_view data) { return Append(std::span(&data, 1)); }
  // What is there, valid until this goes. Reading it may wait for the disk.
  virtual absl::StatusOr<std::string_view> View() = 0;
  // Deletes it, unless an accepted update has it.
  virtual void Discard() = 0;
};

// What a partial payload is of. Equal in everything: the same bytes are meant.
struct PartialIdentity {
  std::string round;
  std::string contributor;
  std::string update_id;
  std::string description;  // headers and weight
  uint64_t total_bytes = 0;

  bool operator==(const PartialIdentity&) const = default;
};

// What an update carries, kept until its round is published or aborted.
struct UpdateContent {
  std::string_view headers;                     // how to read the payload
  std::span<const std::string_view> payload{};  // one byte string, in pieces
  // Accepted only while the round has fewer contributors; 0: however many it has.
  uint64_t contributors_max = 0;
  // Instead of `payload`: it is here, complete. From this store. Accepted, it belongs to the
  // update.
  PartialPayload* stored = nullptr;
};

enum class PutOutcome : uint8_t {
  kAccepted,   // stored now
  kDuplicate,  // the same update_id and digest was stored before
};

struct PutResult {
  PutOutcome outcome = PutOutcome::kAccepted;
  UpdateRecord record;  // as stored first
};

struct RoundRecord {
  std::string name;
  Durability durability = Durability::kMemory;
  RoundPhase phase = RoundPhase::kOpen;
  std::string description;  // as given to OpenRound()
  std::string details;      // as given last
  std::string damage;       // set by Rounds(): why it cannot be trusted; empty: it can
};

// Thread-safe. Of a durable round, everything that a call did is on stable storage when it returns.
// Besides the errors that are named: RESOURCE_EXHAUSTED (STORE_FULL) with a time to retry after,
// when the disk is full and nothing was changed; DATA_LOSS (STORE_CORRUPT). A failed write or fsync
// ends the process: what is on the disk is then unknown, and only the next start finds out.
class UpdateStore {
 public:
  virtual ~UpdateStore() = default;

  virtual bool Supports(Durability durability) const = 0;
  virtual const StoreEpoch& Epoch() const = 0;

  // Opens the books of a round: name, durability, description and details count. ALREADY_EXISTS
  // when they are open, INVALID_ARGUMENT (DURABILITY_UNSUPPORTED).
  virtual absl::Status OpenRound(const RoundRecord& round) = 0;
  // Replaces the details of an open round; of another nothing is changed.
  virtual absl::Status NoteRound(const std::string& round, std::string_view details) = 0;

  // Accepts, recognises or refuses an update, atomically. Refusals: NOT_FOUND (ROUND_NOT_FOUND),
  // FAILED_PRECONDITION (ROUND_NOT_OPEN) after CloseRound unless it is a duplicate, ALREADY_EXISTS
  // (CONTRIBUTOR_ALREADY_COUNTED), INVALID_ARGUMENT (DIGEST_CONFLICT), RESOURCE_EXHAUSTED
  // (ROUND_FULL) at `content.contributors_max`.
  virtual absl::StatusOr<PutResult> Put(UpdateRecord record, const UpdateContent& content) = 0;

  // Where the payload of an update that arrives bit by bit is kept, with what is there of it from
  // before: a stream that broke, or a process that ended. Null when it had better be kept in
  // memory: short ones, and all of rounds that are not durable. May wait for the disk.
  virtual absl::StatusOr<std::unique_ptr<PartialPayload>> TakePartial(
      const PartialIdentity& /*identity*/) {
    return nullptr;
  }
  // Deletes partial payloads that nobody has taken: all of a round, unless one of that name is
  // open, and those that were left before `time`.
  virtual void DropPartialsOf(const std::string& /*round*/) {}
  virtual void DropPartialsUnusedSince(std::chrono::steady_clock::time_point /*time*/) {}

  // The stored update of a contributor, if any.
  virtual std::optional<UpdateRecord> Find(const std::string& round,
                                           const std::string& contributor) const = 0;

  // Fixes the accepted set: no Put() succeeds afterwards but a duplicate's. Returns it, in any
  // order. Closing again changes nothing and returns the same.
  virtual absl::StatusOr<std::vector<UpdateRecord>> CloseRound(const std::string& round,
                                                               std::string_view details) = 0;

  // Keeps the result, a byte string in pieces. What the updates carried is kept with it, or to be
  // erased by ErasePayloads(). REQUIRES: closed.
  virtual absl::Status PublishRound(const std::string& round, std::string_view details,
                                    std::span<const std::string_view> result,
                                    bool keep_updates) = 0;
  // Of a published round: erases what the updates carried and keeps what is needed to recognise
  // late retries. Of an aborted one: erases every update. Of any other, and one that keeps its
  // updates: nothing. May be called again after an error.
  virtual absl::Status ErasePayloads(const std::string& round) = 0;

  // Gives up every update and keeps the round. The updates are erased by ErasePayloads(), or at the
  // next start.
  virtual absl::Status AbortRound(const std::string& round, std::string_view details) = 0;

  // The round is gone, and its name free. What is left of it is erased by EraseLeftovers(), or at
  // the next start.
  virtual absl::Status EraseRound(const std::string& round) = 0;
  // The same, but for the tombstone.
  virtual absl::Status RetireRound(const Tombstone& tombstone) = 0;
  // Erases what deleted rounds have left; what cannot be erased now is left to the next call.
  virtual absl::Status EraseLeftovers() { return absl::OkStatus(); }
  // The process ends: erasures, which may take minutes, end soon with CANCELLED, and so do all that
  // follow. The next start goes on with them.
  virtual void StopErasing() {}
  virtual absl::Status ForgetTombstones(std::chrono::system_clock::time_point erased_before) = 0;

  // Ends the process when what is stored would not be found at the next start, since its files were
  // deleted, moved or replaced. Every acknowledgement looks itself; this is for a store that nobody
  // writes to.
  virtual void CheckInPlace() const {}

  // --- After a restart, before any other call: what was kept ---

  virtual std::vector<RoundRecord> Rounds() const = 0;
  virtual std::vector<Tombstone> Tombstones() const = 0;
  using OnUpdate = std::function<absl::Status(const UpdateRecord&, std::string_view headers,
                                              std::string_view payload)>;
  // Every update whose content is not erased, in the order of acceptance; ends with the first
  // error. NOT_FOUND when they are erased meanwhile. At any time; others commit meanwhile.
  virtual absl::Status ReadUpdates(const std::string& round, const OnUpdate& on_update) const = 0;
  // As given to PublishRound(). NOT_FOUND when it is erased meanwhile. REQUIRES: published. At any
  // time; others commit meanwhile.
  virtual absl::StatusOr<std::string> ReadResult(const std::string& round) const = 0;
};

// Keeps identities in memory and no payloads: the accumulators are the only copy of the values.
// Durability kMemory.
std::unique_ptr<UpdateStore> MakeMemoryStore();

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_STORE_H_

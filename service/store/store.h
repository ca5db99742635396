// Keeps rounds and accepted updates. The store is the only commit point: an update that Put()
// accepts is counted exactly once, and the store alone decides between accepted, duplicate and
// conflict. A round's specification, an update's headers and a manifest are opaque byte strings
// here, which the engine interprets.
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

// The failures that an acknowledged update survives.
enum class Durability : uint8_t {
  kMemory = 1,   // none: lost with the process
  kDurable = 2,  // a crash of the process and a loss of power
};

// The life of a round as the store sees it. The numbers are stored on disk and never change.
enum class RoundPhase : uint8_t {
  kOpen = 1,
  kClosed = 2,                // the accepted set is fixed
  kPublished = 3,             // the result is stored
  kAborted = 4,               // the updates are erased
  kPublishedWithUpdates = 5,  // as kPublished, with the contents of the updates kept
  kDeleted = 6,               // no longer visible; its data is being erased
};
constexpr bool IsPublished(RoundPhase phase) {
  return phase == RoundPhase::kPublished || phase == RoundPhase::kPublishedWithUpdates;
}

// Returns whether the contents of the updates are stored and still needed.
constexpr bool HasUpdates(RoundPhase phase) {
  return phase == RoundPhase::kOpen || phase == RoundPhase::kClosed ||
         phase == RoundPhase::kPublishedWithUpdates;
}

// Identifies the time from one opening of a store to its end.
struct StoreEpoch {
  std::string store_id;  // of the data directory, or of the process for a memory store
  uint64_t epoch = 0;    // incremented at every opening, from 1

  bool operator==(const StoreEpoch&) const = default;
};

// The record of an erased round, by which late retries are recognised.
struct Tombstone {
  std::string round;
  RoundPhase ended = RoundPhase::kAborted;
  std::chrono::system_clock::time_point erased;  // stored in milliseconds
  bool damaged = false;  // set by Tombstones(): the checksum is wrong, and perhaps the name
};

// Identifies an accepted update. The key is (round, contributor), and the first accepted update
// wins.
struct UpdateRecord {
  std::string round;
  std::string contributor;
  std::string update_id;
  float weight = 1.0f;
  std::string digest;     // SHA-256 of weight, headers and payload, 32 bytes
  uint64_t sequence = 0;  // set by Put(): order of acceptance within the round, from 1
};

// The memory that an UpdateRecord takes in the index of accepted updates, as long as its round
// exists: 311 bytes each were measured for a million records with names of 20 to 40 bytes.
inline constexpr uint64_t kRecordBytes = 320;

// A long payload that arrives in chunks and is written to stable storage as far as possible. It is
// no update until Put() has accepted it. Thread-compatible. When the object is destroyed, the bytes
// are kept for the next OpenUploadPayload().
class UploadPayload {
 public:
  virtual ~UploadPayload() = default;
  virtual uint64_t total_bytes() const = 0;
  virtual uint64_t bytes() const = 0;  // received so far
  // Appends all of `data` or, on an error, nothing. Errors: RESOURCE_EXHAUSTED (STORE_FULL);
  // UNAVAILABLE (STORE_BUSY); ABORTED (UPLOAD_LOST) if a sync has failed and the payload was
  // discarded, which Put() and OpenUploadPayload() may return, too. REQUIRES: no more than
  // total_bytes() in all; not discarded.
  virtual absl::Status Append(std::span<const std::string_view> data) = 0;
  absl::Status Append(std::string_view data) { return Append(std::span(&data, 1)); }
  // Returns the bytes received so far, valid until this object is destroyed. Reading them may wait
  // for the disk.
  virtual absl::StatusOr<std::string_view> View() = 0;
  // Deletes the payload unless an accepted update owns it.
  virtual void Discard() = 0;
};

// Identifies the update that a partial payload belongs to. Equal identities stand for equal bytes.
struct PartialIdentity {
  std::string round;
  std::string contributor;
  std::string update_id;
  std::string description;  // headers and weight
  uint64_t total_bytes = 0;

  bool operator==(const PartialIdentity&) const = default;
};

// The content of an update, kept until its round is published or aborted.
struct UpdateContent {
  std::string_view headers;                     // describe the payload
  std::span<const std::string_view> payload{};  // one byte string in pieces
  // The update is accepted only while the round has fewer contributors; 0: no limit.
  uint64_t contributors_max = 0;
  // If not null, a complete payload of this store, used in place of `payload`. An accepted update
  // takes it over.
  UploadPayload* stored = nullptr;
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
  std::string description;  // as passed to OpenRound()
  std::string details;      // as passed last
  std::string damage;       // set by Rounds(): why the round cannot be trusted; empty: sound
};

// Thread-safe. When a call about a durable round returns, its changes are on stable storage.
// Besides the errors named below, every call may return RESOURCE_EXHAUSTED (STORE_FULL), with a
// time to retry after, if the disk is full and nothing was changed, and DATA_LOSS (STORE_CORRUPT).
// A failed write or fsync ends the process, because the content of the disk is then unknown until
// the next start reads it.
class UpdateStore {
 public:
  virtual ~UpdateStore() = default;

  virtual bool Supports(Durability durability) const = 0;
  virtual const StoreEpoch& Epoch() const = 0;

  // Creates an open round. Uses the name, durability, description and details of `round`. Errors:
  // ALREADY_EXISTS if the round exists; INVALID_ARGUMENT (DURABILITY_UNSUPPORTED).
  virtual absl::Status OpenRound(const RoundRecord& round) = 0;
  // Replaces the details of an open round. Has no effect on any other round.
  virtual absl::Status SetRoundDetails(const std::string& round, std::string_view details) = 0;

  // Accepts an update, recognises a duplicate, or refuses it, atomically. Refusals: NOT_FOUND
  // (ROUND_NOT_FOUND), FAILED_PRECONDITION (ROUND_NOT_OPEN) after CloseRound() unless it is a
  // duplicate, ALREADY_EXISTS (CONTRIBUTOR_ALREADY_COUNTED), INVALID_ARGUMENT (DIGEST_CONFLICT),
  // RESOURCE_EXHAUSTED (ROUND_FULL) at `content.contributors_max`.
  virtual absl::StatusOr<PutResult> Put(UpdateRecord record, const UpdateContent& content) = 0;

  // Returns the stored payload of an update that arrives in chunks, with the bytes that an earlier
  // stream or process left of it in this very round. Returns null if the payload should be kept in
  // memory: if it is short, or the round is not durable. May wait for the disk.
  virtual absl::StatusOr<std::unique_ptr<UploadPayload>> OpenUploadPayload(
      const PartialIdentity& /*identity*/) {
    return nullptr;
  }
  // These delete partial payloads that are not in use: all of a round, unless a round of that name
  // is open; and those that were released before `time`.
  virtual void DropUploadPayloads(const std::string& /*round*/) {}
  virtual void DropPartialsUnusedSince(std::chrono::steady_clock::time_point /*time*/) {}

  // Returns the accepted update of a contributor, if any.
  virtual std::optional<UpdateRecord> Find(const std::string& round,
                                           const std::string& contributor) const = 0;

  // Fixes the accepted set: afterwards Put() succeeds only for duplicates. Returns the set, in any
  // order. Closing again changes nothing and returns the same set.
  virtual absl::StatusOr<std::vector<UpdateRecord>> CloseRound(const std::string& round,
                                                               std::string_view details) = 0;

  // Stores the result, a byte string in pieces. The contents of the updates are kept if
  // `keep_updates`; otherwise ErasePayloads() erases them. REQUIRES: the round is closed.
  virtual absl::Status PublishRound(const std::string& round, std::string_view details,
                                    std::span<const std::string_view> result,
                                    bool keep_updates) = 0;
  // Erases the contents of a published round's updates and keeps what is needed to recognise late
  // retries. Erases every update of an aborted round. Has no effect on any other round, nor on one
  // that keeps its updates. May be called again after an error.
  virtual absl::Status ErasePayloads(const std::string& round) = 0;

  // Drops every update of the round and keeps the round. ErasePayloads(), or the next start, erases
  // the updates.
  virtual absl::Status AbortRound(const std::string& round, std::string_view details) = 0;

  // Removes the round and frees its name. EraseLeftovers(), or the next start, erases its data.
  virtual absl::Status EraseRound(const std::string& round) = 0;
  // As EraseRound(), and stores the tombstone.
  virtual absl::Status RetireRound(const Tombstone& tombstone) = 0;
  // Erases the data of deleted rounds. What cannot be erased now is left to the next call.
  virtual absl::Status EraseLeftovers() { return absl::OkStatus(); }
  // Makes erasures, which may take minutes, end soon with CANCELLED, and all later ones too,
  // because the process is about to end. The next start continues them.
  virtual void StopErasing() {}
  virtual absl::Status ForgetTombstones(std::chrono::system_clock::time_point erased_before) = 0;

  // Ends the process if the files of the store were deleted, moved or replaced, so that the next
  // start would not find what is stored. Every acknowledgement includes this check; call it for a
  // store without writes.
  virtual void CheckStillPresent() const {}

  // --- What an earlier process has stored; for a restart, before any other call ---

  virtual std::vector<RoundRecord> Rounds() const = 0;
  virtual std::vector<Tombstone> Tombstones() const = 0;
  using OnUpdate = std::function<absl::Status(const UpdateRecord&, std::string_view headers,
                                              std::string_view payload)>;
  // Calls `on_update` for every update whose content is not erased, in the order of acceptance,
  // until it returns an error. Returns NOT_FOUND if the updates are erased during the call. May be
  // called at any time, also while other threads commit.
  virtual absl::Status ReadUpdates(const std::string& round, const OnUpdate& on_update) const = 0;
  // Returns the result that was passed to PublishRound(), or NOT_FOUND if it is erased during the
  // call. May be called at any time, also while other threads commit. REQUIRES: the round is
  // published.
  virtual absl::StatusOr<std::string> ReadResult(const std::string& round) const = 0;
};

// Returns a store of durability kMemory. It keeps the records of updates in memory and no payloads:
// the accumulators are the only copy of the values.
std::unique_ptr<UpdateStore> MakeMemoryStore();

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_STORE_H_

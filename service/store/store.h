// Where accepted updates live until their result is published. The store is the only commit point:
// an update that Put() accepted is counted exactly once, and the store alone decides between
// accepted, duplicate and conflict.
#ifndef SPARSEAGG_SERVICE_STORE_STORE_H_
#define SPARSEAGG_SERVICE_STORE_STORE_H_

#include <cstdint>
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

// Identity of an accepted update. Key: (round, contributor); the first accepted wins.
struct UpdateRecord {
  std::string round;
  std::string contributor;
  std::string update_id;
  float weight = 1.0f;
  std::string digest;     // SHA-256 of weight, headers and payload, 32 bytes
  uint64_t sequence = 0;  // set by Put(): order of acceptance within the round, from 1
};

enum class PutOutcome : uint8_t {
  kAccepted,   // stored now
  kDuplicate,  // the same update_id and digest was stored before
};

struct PutResult {
  PutOutcome outcome = PutOutcome::kAccepted;
  UpdateRecord record;  // as stored first
};

// Thread-safe.
class UpdateStore {
 public:
  virtual ~UpdateStore() = default;

  virtual bool Supports(Durability durability) const = 0;

  // Opens the books of a round. ALREADY_EXISTS when they are open.
  virtual absl::Status OpenRound(const std::string& round, Durability durability) = 0;

  // Accepts, recognises or refuses an update, atomically; durable on return when the round is.
  // `payload` is the update's byte string in pieces. Refusals: NOT_FOUND (ROUND_NOT_FOUND),
  // FAILED_PRECONDITION (ROUND_NOT_OPEN) after CloseRound unless it is a duplicate, ALREADY_EXISTS
  // (CONTRIBUTOR_ALREADY_COUNTED), INVALID_ARGUMENT (DIGEST_CONFLICT).
  virtual absl::StatusOr<PutResult> Put(const UpdateRecord& record,
                                        std::span<const std::string_view> payload) = 0;

  // The stored update of a contributor, if any.
  virtual std::optional<UpdateRecord> Find(const std::string& round,
                                           const std::string& contributor) const = 0;

  // Fixes the accepted set: no Put() succeeds afterwards but a duplicate's. Returns it, ordered by
  // contributor.
  virtual absl::StatusOr<std::vector<UpdateRecord>> CloseRound(const std::string& round) = 0;

  // Erases raw payloads (after publication) and keeps what is needed to recognise late retries.
  virtual absl::Status ErasePayloads(const std::string& round) = 0;

  // Erases everything about a round.
  virtual absl::Status EraseRound(const std::string& round) = 0;
};

// Keeps identities in memory and no payloads: the accumulators are the only copy of the values.
// Durability kMemory.
std::unique_ptr<UpdateStore> MakeMemoryStore();

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_STORE_H_

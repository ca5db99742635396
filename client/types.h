// What the client library takes and gives, beside tensors (client/tensor.h). Plain structs; the
// words are those of the API (proto/sparseagg/v1).
#ifndef SPARSEAGG_CLIENT_TYPES_H_
#define SPARSEAGG_CLIENT_TYPES_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/tensor.h"
#include "sparse/types.h"

namespace sparseagg::client {

using Time = std::chrono::system_clock::time_point;

enum class RoundState : uint8_t { kOpen = 1, kSealed, kPublished, kRetired, kAborted };
std::string_view RoundStateName(RoundState state);  // "OPEN"
// No update, seal or publication can follow.
bool IsFinal(RoundState state);

enum class Durability : uint8_t {
  kServerDefault = 0,  // in what a caller asks for
  kMemory = 1,         // lost with the server's process
  kDurable = 2,        // on stable storage
};
std::string_view DurabilityName(Durability durability);  // "memory"

enum class SealReason : uint8_t { kNone = 0, kRequested, kGoal, kDeadline };
std::string_view SealReasonName(SealReason reason);  // "GOAL"; "" for kNone

// A life of a server on its data: what was kept in memory ends with it.
struct StoreEpoch {
  std::string store_id;  // of the data directory; of the process, where there is none
  uint64_t epoch = 0;    // raised at every start, from 1; 0: the server does not tell

  bool operator==(const StoreEpoch&) const = default;
};

// When a round ends by itself, and how many contributors it takes. 0 or nothing: no such limit.
// docs/api.md tells it in full.
struct RoundPolicy {
  uint64_t goal_contributors = 0;      // sealed when so many are accepted, after the grace
  std::chrono::milliseconds grace{0};  // further updates count so long after the goal
  uint64_t min_contributors = 0;       // fewer give no result: the deadline aborts the round
  uint64_t max_contributors = 0;       // further ones are refused
  // At most one of them: the deadline.
  std::optional<std::chrono::milliseconds> open_for;  // after the creation
  std::optional<Time> open_until;
};

// What a published result was computed from.
struct Manifest {
  uint64_t contributors = 0;
  double total_weight = 0;                   // the exact sum, rounded once
  std::map<std::string, uint64_t> rejected;  // refused submissions by reason
  uint64_t duplicates = 0;                   // resends answered with the first receipt
  std::string updates_digest;                // SHA-256, 32 bytes
  std::string result_digest;                 // SHA-256, 32 bytes
  uint64_t infinite_values = 0;              // results beyond the range of the value type
  std::optional<Time> publish_time;
  SealReason seal_reason = SealReason::kNone;
  std::map<std::string, uint64_t> late;  // of `rejected`, by what had closed the round
};

// How one tensor of a round is being reduced.
struct TensorStatus {
  std::string name;
  std::string backend;
  std::string plan;  // used last; before the first reduction, the one that is meant
  std::string plan_reason;
  uint64_t nnz_received = 0;
  uint64_t nnz_result = 0;  // 0 before publication
  // For the reductions done so far, side by side, so that a wrong choice of plan can be seen.
  double predicted_seconds = 0;  // 0: nothing reduced yet, or the back end predicts nothing
  double measured_seconds = 0;   // 0: nothing reduced yet, or the back end measures nothing
};

struct RoundInfo {
  std::string name;  // "rounds/{id}"
  RoundState state = RoundState::kOpen;
  std::vector<TensorSpec> tensors;
  Durability durability = Durability::kServerDefault;
  std::optional<Time> create_time;
  std::optional<Time> seal_time;
  std::optional<Time> publish_time;
  uint64_t contributors = 0;
  uint64_t bytes_received = 0;
  std::vector<TensorStatus> tensor_status;
  std::optional<Manifest> manifest;  // from kPublished on
  std::string failure;               // why a kAborted round failed; "" when it was asked for
  uint64_t revision = 0;
  RoundPolicy policy;
  bool keep_updates = false;
  SealReason seal_reason = SealReason::kNone;
  // While kOpen: when the policy closes it at the latest, if it does.
  std::optional<Time> close_time;
  std::optional<std::chrono::milliseconds> time_left;
  bool goal_reached = false;
  StoreEpoch epoch;
};

// A published round that was computed again from its updates and has the same bits.
struct Verification {
  uint64_t contributors = 0;
  uint64_t bytes_read = 0;
  std::string updates_digest;
  std::string result_digest;
  std::string backend;
};

struct NewRound {
  std::string id;  // 1 to 63 of [a-z0-9-], a letter first; "": the server makes one
  std::vector<TensorSpec> tensors;
  Durability durability = Durability::kServerDefault;
  std::string request_id;  // the same id and content give the same round; "": a random one
  RoundPolicy policy;
  // Raw updates stay until the round is deleted, so that Verify() can compute the result again.
  bool keep_updates = false;
};

// One contributor's update: every tensor of the round once, nnz 0 for one that it did not touch.
struct Update {
  std::string contributor;  // 1 to 128 of [A-Za-z0-9._:@|/-]; may stay empty in Reduce
  // Names this update over retries, 1 to 64 of [A-Za-z0-9._-]. "": a digest of the content, so that
  // sending the same update again, even from another process, is recognised.
  std::string update_id;
  float weight = 1.0f;
  std::vector<TensorView> tensors;  // their entries must live until the call returns
  // What the tensors travel as (docs/wire_format.md). "auto": the fewest bytes that change nothing,
  // of the encodings that the server knows. Other names are those of AllEncodings() and
  // AllValuesEncodings(); of values, bf16, f16, int8 and int4 round f32 and f64 before they are
  // sent and leave other types as they are.
  std::string encoding = "auto";
  std::string values = "auto";
};

// What one tensor travelled as.
struct TensorEncoding {
  std::string tensor;
  std::string encoding;  // "coo.packed"
  std::string values;    // "raw", "bf16", ...
  uint64_t nnz = 0;
  uint64_t bytes = 0;  // of payload
};

// The acknowledgement: the update is counted exactly once.
struct Receipt {
  std::string round;
  std::string contributor;
  std::string update_id;
  bool duplicate = false;  // it had been counted before
  uint64_t sequence = 0;   // position in the order of acceptance, from 1
  std::string digest;      // SHA-256, 32 bytes
  Durability durability = Durability::kMemory;
  std::vector<TensorEncoding> encodings;  // what this call sent
  StoreEpoch epoch;  // an update in memory is lost when the server's is another one
};

// An aggregate. A sparse tensor has ascending indices (in the order of the selection, where one was
// given), a dense one sparse_dim 0 and one row; with a selection of no index its first dimension is
// 0, and there is no value.
struct Result {
  std::vector<Tensor> tensors;
  Manifest manifest;
};

struct BackendStatus {
  std::string name;
  std::string description;
  bool available = false;
  std::string unavailable_reason;
  std::vector<std::string> plans;
  bool selected = false;
};

struct LimitInfo {
  std::string name;
  uint64_t value = 0;
  std::string unit;
  std::string help;
};

// What is taken of the limits at the moment, all tenants together.
struct ServerLoad {
  uint64_t staging_bytes = 0;
  uint64_t aggregation_bytes = 0;
  uint64_t upload_disk_bytes = 0;
  uint64_t open_uploads = 0;
  uint64_t rounds = 0;
  uint64_t calls = 0;  // under way, streams included
};

struct ServerInfo {
  std::string version;
  std::vector<BackendStatus> backends;
  std::vector<std::string> operators;
  std::vector<std::string> encodings;
  std::vector<std::string> values_encodings;
  std::vector<ValueType> value_types;
  std::vector<LimitInfo> limits;
  Durability default_durability = Durability::kServerDefault;
  std::vector<Durability> durabilities;
  StoreEpoch epoch;
  std::optional<ServerLoad> load;  // operators are told
};

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TYPES_H_

// The arguments and results of the client library, besides tensors (client/tensor.h). Plain
// structs; their terms are those of the API (proto/sparseagg/v1).
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
  kServerDefault = 0,  // in requests only
  kMemory = 1,         // lost with the server's process
  kDurable = 2,        // on stable storage
};
std::string_view DurabilityName(Durability durability);  // "memory"

enum class SealReason : uint8_t { kNone = 0, kRequested, kGoal, kDeadline };
std::string_view SealReasonName(SealReason reason);  // "GOAL"; "" for kNone

// Identifies one run of a server on its data. State in memory is lost when it ends.
struct StoreEpoch {
  std::string store_id;  // of the data directory, or of the process if there is none
  uint64_t epoch =
      0;  // incremented at every start, from 1; 0: an old server, which does not send it

  bool operator==(const StoreEpoch&) const = default;
};

// When a round ends by itself, and how many contributors it accepts. 0 or unset: no such limit.
// docs/api.md has the details.
struct RoundPolicy {
  uint64_t goal_contributors = 0;      // sealed `grace` after this many are accepted
  std::chrono::milliseconds grace{0};  // time for further updates after the goal
  uint64_t min_contributors = 0;       // with fewer the deadline aborts the round
  uint64_t max_contributors = 0;       // more are refused
  // The deadline: at most one of these.
  std::optional<std::chrono::milliseconds> open_for;  // after the creation
  std::optional<Time> open_until;
  // Of a server with leaves: how long after the seal it waits for one that does not answer; unset:
  // for ever.
  std::optional<std::chrono::milliseconds> leaf_wait;
};

// A server that receives a part of a round's updates (docs/trees.md).
struct Leaf {
  std::string id;
  std::string address;

  bool operator==(const Leaf&) const = default;
};

// The leaves of a round.
struct RoundTree {
  std::vector<Leaf> leaves;  // empty: the round has none
  std::string self;          // the leaf that the round is of; empty: the root
};

// Rows of a divided result, which their owner has as the result of a round of its own.
struct ResultPart {
  Leaf owner;
  std::string round;  // its name there

  bool operator==(const ResultPart&) const = default;
};

// What a published result was computed from.
struct Manifest {
  uint64_t contributors = 0;
  double total_weight = 0;                   // the exact sum, rounded once
  std::map<std::string, uint64_t> rejected;  // refused updates by reason
  uint64_t duplicates = 0;                   // resent updates, answered with the first receipt
  std::string updates_digest;                // SHA-256, 32 bytes
  std::string result_digest;                 // SHA-256, 32 bytes
  uint64_t infinite_values = 0;  // values of the result beyond the range of the value type
  std::optional<Time> publish_time;
  SealReason seal_reason = SealReason::kNone;
  std::map<std::string, uint64_t>
      late;  // the updates of `rejected` that came too late, by what had closed the round
  std::vector<std::string> given_up_leaves;  // ids; nothing that was sent to them is counted
  std::vector<ResultPart> parts;             // of a round with owners, in the order of the rows
};

// How one tensor of a round is being reduced.
struct TensorStatus {
  std::string name;
  std::string backend;
  std::string plan;  // of the last reduction; before the first, the one that is intended
  std::string plan_reason;
  uint64_t nnz_received = 0;
  uint64_t nnz_result = 0;  // 0 before publication
  // Sums over the reductions so far; a large difference shows a wrong choice of plan.
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
  std::string failure;               // why a kAborted round failed; "" if the abort was requested
  uint64_t revision = 0;
  RoundPolicy policy;
  bool keep_updates = false;
  SealReason seal_reason = SealReason::kNone;
  // While kOpen: when the policy closes the round at the latest; unset: it does not.
  std::optional<Time> close_time;
  std::optional<std::chrono::milliseconds> time_left;
  bool goal_reached = false;
  // kAborted for lack of memory, with its updates kept: the next start may restore it.
  bool may_be_restored = false;
  std::string stall;  // why a round is not sealed or published, though it should be; "" if nothing
  StoreEpoch epoch;
  bool publish_partial = false;
  RoundTree tree;
};

// A partial aggregate, as bytes (docs/partials.md).
struct PartialBytes {
  std::string bytes;
  std::string digest;  // SHA-256, 32 bytes
};

// The outcome of Verify(): the result was computed again from the updates, with the same bits.
struct Verification {
  uint64_t contributors = 0;
  uint64_t bytes_read = 0;
  std::string updates_digest;
  std::string result_digest;
  std::string backend;
};

struct NewRound {
  std::string id;  // 1 to 63 of [a-z0-9-], a letter first; "": chosen by the server
  std::vector<TensorSpec> tensors;
  Durability durability = Durability::kServerDefault;
  std::string request_id;  // repeating the call with it returns the same round; "": random
  RoundPolicy policy;
  // Whether the server keeps the updates until the round is deleted, as Verify() requires.
  bool keep_updates = false;
  // Whether the result is the partial aggregate, which is not rounded: GetPartial().
  bool publish_partial = false;
  // Whether the leaves keep the result, each a range of its rows (docs/trees.md); Get() at the
  // server reads them all.
  bool owners = false;
};

// One contributor's update: every tensor of the round once, with nnz 0 if it has no entries.
struct Update {
  std::string contributor;  // 1 to 128 of [A-Za-z0-9._:@|/-]; may be empty in Reduce
  // Identifies this update in retries, 1 to 64 of [A-Za-z0-9._-]. "": a digest of the content, so
  // that the server recognises the same update even from another process.
  std::string update_id;
  float weight = 1.0f;
  std::vector<TensorView> tensors;  // their entries must stay valid until the call returns
  // The encodings of indices and values on the wire (docs/wire_format.md). "auto": the smallest
  // lossless encoding that the server knows. Other names are those of AllEncodings() and
  // AllValuesEncodings(). The values encodings bf16, f16, int8 and int4 round f32 and f64 values
  // and leave other types unchanged.
  std::string encoding = "auto";
  std::string values = "auto";
};

// The encoding in which a tensor was sent.
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
  bool duplicate = false;  // the update had been counted before
  uint64_t sequence = 0;   // position in the order of acceptance, from 1
  std::string digest;      // SHA-256, 32 bytes
  Durability durability = Durability::kMemory;
  std::vector<TensorEncoding> encodings;  // of the tensors that this call sent
  StoreEpoch epoch;  // if the server's differs later, an update in memory is lost
};

// An aggregate. A sparse tensor has ascending indices, or with a selection the selection's order. A
// dense tensor has sparse_dim 0 and one row; with an empty selection its first dimension is 0, and
// it has no values.
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
  std::vector<std::string> devices;
};

struct LimitInfo {
  std::string name;
  uint64_t value = 0;
  std::string unit;
  std::string help;
};

// The current use of the server's limits, over all tenants.
struct ServerLoad {
  uint64_t staging_bytes = 0;
  uint64_t aggregation_bytes = 0;
  uint64_t upload_disk_bytes = 0;
  uint64_t open_uploads = 0;
  uint64_t rounds = 0;
  uint64_t calls = 0;  // in progress, streams included
};

// What a root knows of one of its leaves.
struct LeafStatus {
  Leaf leaf;
  bool up = false;
  std::chrono::milliseconds silent_for{0};  // since its last answer
  std::string error;                        // why the last call failed
  uint64_t rounds = 0;
  uint64_t partial_bytes = 0;  // received from it since the root started
  uint64_t given_up = 0;       // rounds
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
  std::optional<ServerLoad> load;  // for operators only
  std::vector<LeafStatus> leaves;  // the same; of a server that was started with leaves
};

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TYPES_H_

// The engine runs rounds: it knows when an update may come, for whom it counts, and when a result
// is ready. It speaks no network protocol; service/rpc/ translates. It does no arithmetic; sparse/
// and the back end do.
//
// Life of an update:  received -> admitted (sizes from its headers) -> staged (decoded, validated)
// -> stored -> counted -> receipt. An error at any step leaves the round as it was.
#ifndef SPARSEAGG_SERVICE_ENGINE_ENGINE_H_
#define SPARSEAGG_SERVICE_ENGINE_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/engine/limits.h"
#include "service/engine/names.h"
#include "service/engine/observer.h"
#include "service/engine/round_policy.h"
#include "service/engine/round_state.h"
#include "service/store/store.h"
#include "sparse/backend.h"
#include "sparse/encoding.h"

namespace sparseagg {

struct RoundSpec {
  std::vector<TensorSpec> tensors;
  Durability durability = Durability::kMemory;
  RoundPolicy policy;
  bool keep_updates = false;  // until the round is deleted, for VerifyRound()
};

// Bytes of one tensor of an update; the header's sizes equal the chains' lengths.
struct EncodedTensor {
  EncodedHeader header;
  ByteChain indices;
  ByteChain values;
};

struct UpdateHeader {
  std::string round;  // "rounds/{id}"; empty in a Reduction
  std::string contributor;
  std::string update_id;
  float weight = 1.0f;
};

struct Receipt {
  std::string round;
  std::string contributor;
  std::string update_id;
  bool duplicate = false;
  uint64_t sequence = 0;  // from 1
  std::string digest;     // SHA-256, 32 bytes
  Durability durability = Durability::kMemory;
  StoreEpoch epoch;
};

struct Manifest {
  uint64_t contributors = 0;
  double total_weight = 0;                   // exact sum, rounded once
  std::map<std::string, uint64_t> rejected;  // by reason
  std::map<std::string, uint64_t> late;      // of these, by what had closed the round
  uint64_t duplicates = 0;
  std::string updates_digest;
  std::string result_digest;
  uint64_t infinite_values = 0;
  std::chrono::system_clock::time_point publish_time;
  std::optional<SealReason> seal_reason;  // none: a stateless reduction
};

struct TensorStatus {
  std::string name;
  std::string backend;
  PlanReport reduction;  // so far: as of the update folded last
  uint64_t nnz_received = 0;
  uint64_t nnz_result = 0;
};

// What the outside sees of a round at one moment.
struct RoundSnapshot {
  std::string tenant;
  std::string name;  // without the tenant
  RoundState state = RoundState::kOpen;
  RoundSpec spec;
  std::chrono::system_clock::time_point create_time;
  std::optional<std::chrono::system_clock::time_point> seal_time;
  std::optional<std::chrono::system_clock::time_point> publish_time;
  std::optional<std::chrono::system_clock::time_point> abort_time;
  std::optional<SealReason> seal_reason;
  // While OPEN: when the policy closes it at the latest, if it does.
  std::optional<std::chrono::system_clock::time_point> close_time;
  std::optional<std::chrono::milliseconds> time_left;
  bool goal_reached = false;
  uint64_t contributors = 0;
  uint64_t bytes_received = 0;
  std::vector<TensorStatus> tensors;
  std::optional<Manifest> manifest;
  std::string failure;
  uint64_t revision = 0;
  StoreEpoch epoch;
};

// A published result; immutable, shared with every reader, outlives the deletion of its round. Its
// memory is reserved until then.
struct PublishedResult {
  RoundSpec spec;
  std::vector<SparseTensor> tensors;  // in the order of spec.tensors
  std::vector<TensorSpec>
      result_specs;  // shape and type of each result (differs from spec for "count")
  Manifest manifest;
};

// A published round that was computed again from its updates and has the same bits.
struct Verification {
  uint64_t contributors = 0;
  uint64_t bytes_read = 0;
  std::string updates_digest;
  std::string result_digest;
  std::string backend;
};

// An update that arrives in chunks of its byte string (for each tensor: indices, then values).
// Thread-compatible.
class Upload {
 public:
  virtual ~Upload() = default;
  virtual uint64_t committed_offset() const = 0;
  virtual uint64_t total_bytes() const = 0;
  // Whether Append() does.
  virtual bool waits_for_disk() const { return false; }
  // Appends bytes at `offset`, which must equal committed_offset() (OFFSET_MISMATCH names both),
  // checks the CRC32C when given (CHECKSUM_MISMATCH).
  virtual absl::Status Append(uint64_t offset, ByteChain data, std::optional<uint32_t> crc32c) = 0;
  absl::Status Append(uint64_t offset, std::string_view data, std::optional<uint32_t> crc32c) {
    return Append(offset, ByteChain(&data, 1), crc32c);
  }
  // Whether Finish() has nothing left to decode.
  virtual bool arrived() const { return false; }
  // REQUIRES: committed_offset() == total_bytes(). Counts the update.
  virtual absl::StatusOr<Receipt> Finish() = 0;
  // Frees the bytes: the update has to begin again. Whoever uses it further is told `why`. Does
  // nothing when another stream has resumed the update, or when it is complete and being counted.
  virtual void Refuse(const absl::Status& why) = 0;
};

// The stateless operator: a round without a name, a store or an end other than Report(). A
// contributor is not recognised again: every added update counts. Thread-safe.
class Reduction {
 public:
  virtual ~Reduction() = default;
  virtual absl::Status Add(const UpdateHeader& header,
                           const std::vector<EncodedTensor>& tensors) = 0;
  virtual absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(
      const UpdateHeader& header, std::vector<EncodedHeader> tensors) = 0;
  virtual absl::StatusOr<std::shared_ptr<const PublishedResult>> Report() = 0;
};

struct CreateRoundArgs {
  std::string round_id;    // empty: generated
  std::string request_id;  // empty: not idempotent; another tenant's are of no concern
  RoundSpec spec;
  std::string tenant{kDefaultTenant};
  uint64_t tenant_rounds_max = 0;  // set by the engine
};

class Executor;  // executor.h

// How full the engine is at one moment; limits() are the bounds.
struct EngineStats {
  std::map<RoundState, uint64_t> rounds;
  uint64_t staged_bytes = 0;
  uint64_t aggregation_bytes = 0;
  uint64_t aggregation_bytes_max = 0;
  uint64_t upload_disk_bytes = 0;
  uint64_t open_uploads = 0;
  uint64_t waiting_tasks = 0;  // folds and publications that no thread has begun
  std::optional<DeviceStats> device = std::nullopt;  // of the back end's
};

// Cancels its subscription when destroyed.
using WatchHandle = std::shared_ptr<void>;

// What a watcher is told of.
enum class WatchFor : uint8_t {
  kEveryChange,
  kEnd,  // a final state and the deletion: costs nothing until then
};

// Names of rounds are qualified with their tenant (names.h) on the way in; what comes out, errors
// included, is what the tenant may see. TenantEngines (tenant_engines.h) qualifies.
//
// Thread-safe. Every error carries a reason (sparse/status.h).
class Engine {
 public:
  virtual ~Engine() = default;

  virtual absl::StatusOr<RoundSnapshot> CreateRound(const CreateRoundArgs& args) = 0;
  virtual absl::StatusOr<RoundSnapshot> GetRound(std::string_view name) = 0;
  // Rounds of all tenants with a qualified name above `after`, ascending, at most `limit`.
  virtual std::vector<RoundSnapshot> ListRounds(std::string_view after, size_t limit) = 0;
  virtual absl::StatusOr<RoundSnapshot> SealRound(std::string_view name) = 0;
  virtual absl::StatusOr<RoundSnapshot> AbortRound(std::string_view name) = 0;
  // Deleting a round again, as long as its name is remembered, changes nothing and succeeds.
  virtual absl::Status DeleteRound(std::string_view name) = 0;

  // All calls that take a name: NOT_FOUND, ROUND_EXPIRED for a round that was deleted within
  // retry_horizon_ms, ROUND_NOT_FOUND for another.

  // Calls `on_change` after the changes of the round that `what` names (from any thread, without
  // locks held, never after the handle is gone), and once with nullopt when the round is deleted.
  // Counted updates that follow one another within milliseconds are one change.
  virtual absl::StatusOr<WatchHandle> Watch(
      std::string_view name, WatchFor what,
      std::function<void(const std::optional<RoundSnapshot>&)> on_change) = 0;

  // Counts one contributor's update. ALREADY_EXISTS (CONTRIBUTOR_ALREADY_COUNTED) for another
  // update_id of a counted contributor; INVALID_ARGUMENT (DIGEST_CONFLICT) for the same id with
  // other bytes.
  virtual absl::StatusOr<Receipt> Submit(UpdateHeader header,
                                         const std::vector<EncodedTensor>& tensors) = 0;
  // Whether counting an update of this round waits for a disk, so that a caller had better not wait
  // on a thread that others need. False when there is no such round.
  virtual bool WaitsForDisk(std::string_view name) = 0;
  // Starts or resumes. A counted update resumes at its end, so that Finish() answers with the first
  // receipt; as its bytes are not sent again, it is recognised by update_id and weight. ABORTED
  // (UPLOAD_BUSY) while Finish() of another stream is under way. Uploads end when their round is no
  // longer OPEN, or after upload_idle_ms without a byte. Large ones of a durable round are kept on
  // disk, and resume after a restart: this call and Append() then wait for the disk.
  virtual absl::StatusOr<std::shared_ptr<Upload>> BeginUpload(
      const UpdateHeader& header, std::vector<EncodedHeader> tensors) = 0;

  // FAILED_PRECONDITION (ROUND_NOT_PUBLISHED) before publication.
  virtual absl::StatusOr<std::shared_ptr<const PublishedResult>> Result(std::string_view name) = 0;

  // Computes a published round again with the reference back end, in half of the aggregation memory
  // that its tenant has free. DATA_LOSS (RESULT_MISMATCH) when a bit differs. FAILED_PRECONDITION
  // (UPDATES_NOT_KEPT) when only the stored result could be compared with the manifest, and is as
  // it was. CANCELLED once `cancelled` says so, which is asked before each step.
  virtual absl::StatusOr<Verification> VerifyRound(std::string_view name,
                                                   std::function<bool()> cancelled) = 0;

  // On the account of `tenant`.
  virtual absl::StatusOr<std::unique_ptr<Reduction>> NewReduction(
      const RoundSpec& spec, std::string_view tenant = kDefaultTenant) = 0;

  virtual const BackendInfo& backend_info() const = 0;
  virtual const Limits& limits() const = 0;
  virtual EngineStats Stats() const = 0;

  // Takes up the rounds that the store has kept, and publishes those that are sealed. Call it once,
  // before anything else. A round whose data is damaged, or that the back end has no memory for,
  // becomes ABORTED and says so. What rounds hold is counted and not refused: only new work is,
  // until there is room. Other errors (a limit that is too low for what is stored) name the round.
  virtual absl::Status Recover() = 0;

  // Refuses new rounds and updates (UNAVAILABLE, SERVER_DRAINING) and waits until what is being
  // submitted, reduced, published and erased is done, at most until `deadline`. Whether it is.
  // Erasures need not be waited for (UpdateStore::StopErasing()).
  virtual bool Drain(std::chrono::steady_clock::time_point deadline) = 0;
  // The same, however long it takes.
  void Drain() { Drain(std::chrono::steady_clock::time_point::max()); }
};

struct EngineOptions {
  Limits limits;
  // Asked once for each tenant; unset: limits of Limits.
  std::function<TenantLimits(std::string_view tenant)> tenant_limits;
  Durability default_durability = Durability::kMemory;
  // Of the durable rounds, 0 to 1: they are computed again with the reference back end, from the
  // stored updates, before they are published. One whose result differs in a bit fails.
  double verify_share = 0;
  uint32_t worker_threads = 2;  // fold and publish
  // Does so instead, and erases what rounds leave on a disk; must outlive the engine. Null: its
  // own, and a thread for erasing.
  Executor* executor = nullptr;
  // Between two looks for what is over or idle, at most.
  std::chrono::milliseconds look_interval{5000};
  std::function<std::chrono::system_clock::time_point()> now = [] {
    return std::chrono::system_clock::now();
  };
  // For what must not move with a wall clock that is set. Must not block.
  std::function<std::chrono::steady_clock::time_point()> steady_now = [] {
    return std::chrono::steady_clock::now();
  };
  std::shared_ptr<EngineObserver> observer = std::make_shared<EngineObserver>();
};

// `backend` and `store` must outlive the engine; watch handles, uploads and reductions must not.
// Its end waits for the tasks under way, and ends erasures (UpdateStore::StopErasing()).
std::unique_ptr<Engine> MakeEngine(EngineOptions options, Backend& backend, UpdateStore& store);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ENGINE_H_

// The engine runs rounds: it decides whether an update is admitted, counts each contributor once,
// and publishes the result. It knows no network protocol, which service/rpc/ translates, and does
// no arithmetic, which sparse/ and the back end do.
//
// Life of an update:  received -> admitted (sizes from its headers) -> staged (decoded, validated)
// -> stored -> counted -> receipt; folded later. An error before the receipt changes nothing.
#ifndef SPARSEAGG_SERVICE_ENGINE_ENGINE_H_
#define SPARSEAGG_SERVICE_ENGINE_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <functional>
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
#include "service/engine/partial/round_partial.h"
#include "service/engine/types.h"
#include "service/store/store.h"
#include "sparse/backend.h"

namespace sparseagg {

// An update that arrives in chunks of its byte string, which holds the indices and then the values
// of each tensor. Thread-compatible.
class Upload {
 public:
  virtual ~Upload() = default;
  virtual uint64_t committed_offset() const = 0;
  virtual uint64_t total_bytes() const = 0;
  // Returns whether Append() waits for the disk.
  virtual bool waits_for_disk() const { return false; }
  // Appends bytes at `offset`, which must equal committed_offset() (INVALID_ARGUMENT,
  // OFFSET_MISMATCH names both). Checks the CRC-32C if given (DATA_LOSS, CHECKSUM_MISMATCH).
  virtual absl::Status Append(uint64_t offset, ByteChain data, std::optional<uint32_t> crc32c) = 0;
  absl::Status Append(uint64_t offset, std::string_view data, std::optional<uint32_t> crc32c) {
    return Append(offset, ByteChain(&data, 1), crc32c);
  }
  // Returns whether all bytes were decoded as they arrived, so that Finish() decodes nothing.
  virtual bool arrived() const { return false; }
  // Counts the update. REQUIRES: committed_offset() == total_bytes().
  virtual absl::StatusOr<Receipt> Finish() = 0;
  // Frees the bytes, so that the update must start again. Later calls return `why`. Has no effect
  // if another stream has resumed the update, or if the update is complete and being counted.
  virtual void Refuse(const absl::Status& why) = 0;
};

// A stateless reduction: a round without a name and without a store, which ends with Report().
// Contributors are not compared, so every added update counts. Thread-safe: what several threads
// add, or merge, at the same time is counted once each.
class StatelessReduction {
 public:
  virtual ~StatelessReduction() = default;
  virtual absl::Status Add(const UpdateHeader& header,
                           const std::vector<EncodedTensor>& tensors) = 0;
  virtual absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(
      const UpdateHeader& header, std::vector<EncodedHeader> tensors) = 0;
  // Returns the exact state so far, without the names of its updates. Changes no result. The caller
  // accounts for the memory of the partial aggregate.
  virtual absl::StatusOr<RoundPartial> Snapshot() = 0;
  // Adds what the partial aggregate holds, as if its updates had been added here. The manifest of
  // the result has no digests then. Returns FAILED_PRECONDITION (SPEC_MISMATCH), and changes
  // nothing, unless it is of the same tensors in the same order.
  virtual absl::Status Merge(const RoundPartial& partial) = 0;
  virtual absl::StatusOr<std::shared_ptr<const PublishedResult>> Report() = 0;
};

class Executor;  // executor.h

// Ends the subscription when the last copy is destroyed.
using WatchHandle = std::shared_ptr<void>;

// The changes that a watcher receives.
enum class WatchScope : uint8_t {
  kEveryChange,
  kEnd,  // only a final state and the deletion; free until then
};

// Arguments name rounds by qualified names, which include the tenant (names.h); TenantEngines
// (tenant_engines.h) qualifies them. Return values and errors contain the names that the tenant
// sees.
//
// Thread-safe. Every error carries a reason (base/status.h).
class Engine {
 public:
  virtual ~Engine() = default;

  virtual absl::StatusOr<RoundSnapshot> CreateRound(const CreateRoundArgs& args) = 0;
  virtual absl::StatusOr<RoundSnapshot> GetRound(std::string_view name) = 0;
  // Returns at most `limit` rounds of all tenants whose qualified name is above `after`, in
  // ascending order.
  virtual std::vector<RoundSnapshot> ListRounds(std::string_view after, size_t limit) = 0;
  virtual absl::StatusOr<RoundSnapshot> SealRound(std::string_view name) = 0;
  virtual absl::StatusOr<RoundSnapshot> AbortRound(std::string_view name) = 0;
  // Succeeds without a change for a round that is already deleted, as long as its name is
  // remembered.
  virtual absl::Status DeleteRound(std::string_view name) = 0;
  // For service/tree/: AbortRound() with a failure, which may be a leaf's round that is PUBLISHED,
  // and the deletion of a round of which no caller has been told, which aborts it first and frees
  // its name at once.
  virtual absl::StatusOr<RoundSnapshot> FailRound(std::string_view name,
                                                  const std::string& failure) = 0;
  virtual absl::Status WithdrawRound(std::string_view name) = 0;
  // For service/tree/: SealRound() of a root whose owners have the rows of the result.
  virtual absl::StatusOr<RoundSnapshot> SealDivided(std::string_view name,
                                                    const DividedResult& divided) = 0;

  // All calls that take a name return NOT_FOUND for an unknown one: ROUND_EXPIRED if the round was
  // deleted within retry_horizon_ms, otherwise ROUND_NOT_FOUND.

  // Calls `on_change` after each change of the round that `what` selects, and once with nullopt
  // when the round is deleted. Calls come from any thread, without locks held, and never after the
  // handle is released. Updates counted within a few milliseconds of each other are one change.
  virtual absl::StatusOr<WatchHandle> Watch(
      std::string_view name, WatchScope what,
      std::function<void(const std::optional<RoundSnapshot>&)> on_change) = 0;

  // Counts one contributor's update. Errors: ALREADY_EXISTS (CONTRIBUTOR_ALREADY_COUNTED) if the
  // contributor was counted with another update_id, or by a partial aggregate; INVALID_ARGUMENT
  // (DIGEST_CONFLICT) if it was counted with the same update_id and other bytes.
  //
  // If the body is a partial aggregate (partial/partial_body.h), counts every
  // contributor that it covers, or none: ALREADY_EXISTS (CONTRIBUTORS_OVERLAP) names one that is
  // counted already. Further errors: those of ReadPartial(), INVALID_ARGUMENT (PARTIAL_NOT_NAMED).
  virtual absl::StatusOr<Receipt> Submit(UpdateHeader header,
                                         const std::vector<EncodedTensor>& tensors) = 0;
  // Returns whether calls about this round wait for a disk, or for other servers, so that they
  // should not run on a thread that other calls need. Returns false if there is no such round.
  virtual bool WaitsForDisk(std::string_view name) = 0;
  // Starts or resumes an upload. The upload of a counted update resumes at its end, so that
  // Finish() returns the first receipt; since its bytes are not sent again, it is recognised by
  // update_id and weight. Returns ABORTED (UPLOAD_BUSY) while Finish() of another stream is in
  // progress. An upload ends when its round is no longer OPEN, or after upload_idle_ms without a
  // byte. Large uploads of a durable round are kept on disk and can be resumed after a restart; for
  // them, this call and Append() wait for the disk.
  virtual absl::StatusOr<std::shared_ptr<Upload>> BeginUpload(
      const UpdateHeader& header, std::vector<EncodedHeader> tensors) = 0;

  // Returns FAILED_PRECONDITION (ROUND_NOT_PUBLISHED) before publication.
  virtual absl::StatusOr<std::shared_ptr<const PublishedResult>> Result(std::string_view name) = 0;

  // Computes a published round again with the reference back end, in half of the aggregation memory
  // that its tenant has free. Errors: DATA_LOSS (RESULT_MISMATCH) if a bit differs;
  // FAILED_PRECONDITION (UPDATES_NOT_KEPT) if the updates were erased, so that only the stored
  // result could be compared with the manifest, and matched it; CANCELLED if `cancelled`, which is
  // called before each step, returns true.
  virtual absl::StatusOr<Verification> VerifyRound(std::string_view name,
                                                   std::function<bool()> cancelled) = 0;

  // Creates a stateless reduction whose memory is reserved from the budgets of `tenant`.
  virtual absl::StatusOr<std::unique_ptr<StatelessReduction>> NewReduction(
      const RoundSpec& spec, std::string_view tenant = kDefaultTenant) = 0;

  virtual const BackendInfo& backend_info() const = 0;
  virtual const Limits& limits() const = 0;
  virtual EngineStats Stats() const = 0;

  // Restores the rounds that the store has kept, and publishes those that are sealed. Call it once,
  // before any other call. A round becomes ABORTED, with the cause as its failure, if its data is
  // damaged or the back end has no memory for it. The memory of restored rounds is recorded even
  // beyond the limits; only new work is refused until there is room. Other errors, such as a limit
  // that is too low for what is stored, name the round.
  virtual absl::Status Recover() = 0;

  // Refuses new rounds and updates (UNAVAILABLE, SERVER_DRAINING) and waits, at most until
  // `deadline`, for the submissions, reductions, publications and erasures in progress. Returns
  // whether all of them are done. UpdateStore::StopErasing() makes erasures end early.
  virtual bool Drain(std::chrono::steady_clock::time_point deadline) = 0;
  // Waits without a deadline.
  void Drain() { Drain(std::chrono::steady_clock::time_point::max()); }
};

struct EngineOptions {
  Limits limits;
  // Called once for each tenant. If unset, the tenant_* fields of Limits apply to every tenant.
  std::function<TenantLimits(std::string_view tenant)> tenant_limits;
  Durability default_durability = Durability::kMemory;
  // The share of durable rounds, 0 to 1, that are computed again with the reference back end, from
  // the stored updates, before they are published. A round whose result differs in a bit fails.
  double verify_share = 0;
  uint32_t worker_threads = 2;  // threads that fold and publish
  // Runs these tasks, and those that erase the data of ended rounds. It must outlive the engine. If
  // null, the engine starts a thread pool of its own and one thread for erasing.
  Executor* executor = nullptr;
  // The longest interval between two checks for deadlines, idle uploads and expired rounds.
  std::chrono::milliseconds check_interval{5000};
  std::function<std::chrono::system_clock::time_point()> now = [] {
    return std::chrono::system_clock::now();
  };
  // The clock for durations, which do not change when the wall clock is set. Must not block.
  std::function<std::chrono::steady_clock::time_point()> steady_now = [] {
    return std::chrono::steady_clock::now();
  };
  std::shared_ptr<EngineObserver> observer = std::make_shared<EngineObserver>();
};

// `backend` and `store` must outlive the engine; watch handles, uploads and reductions must not.
// The destructor waits for the tasks in progress and stops erasures (UpdateStore::StopErasing()).
std::unique_ptr<Engine> MakeEngine(EngineOptions options, Backend& backend, UpdateStore& store);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ENGINE_H_

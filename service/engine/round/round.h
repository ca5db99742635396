// One round: its state, its counts, and the strand on which its updates are folded (fold_queue.h)
// and its result is published (round_publisher.h).
//
// There are two locks. `gate_` separates commits (an update becomes counted) from cuts (seal,
// abort, delete), so that every update is either in the sealed set and folded, or refused. A cut
// that waits for the gate blocks every commit; therefore a cut first checks the state and takes the
// gate only if it will change something, and no thread holds the gate while a result is written or
// updates are erased. `mutex_` guards the fields and is held only briefly. Lock order: gate_,
// mutex_. No thread waits for an executor while it holds either lock; watchers are called without
// both.
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_ROUND_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_ROUND_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "service/engine/engine.h"
#include "service/engine/ingest/tensor_reducers.h"
#include "service/engine/memory/admission.h"
#include "service/engine/partial/covered_updates.h"
#include "service/engine/round/commit_gate.h"
#include "service/engine/round/executor.h"
#include "service/engine/round/fold_queue.h"
#include "service/engine/round/round_clock.h"
#include "service/engine/round/round_publisher.h"
#include "service/engine/round/watchers.h"

namespace sparseagg {

class UploadTable;

// Dependencies that all rounds of an engine share. They must outlive the rounds.
struct RoundServices {
  const EngineOptions& options;
  UpdateStore& store;
  Executor& executor;
  Executor& eraser;  // one thread, for slow background work on the disk
  UploadTable& uploads;
  std::shared_ptr<const void> budgets;  // owns the budgets that rounds reserve memory from
  Admission& aggregation;               // of the round's tenant, one of `budgets`
  const std::atomic<bool>& draining;    // set while the engine drains
  const std::string& start_id;
};

// An update that has passed every check and is ready to be counted.
struct PreparedUpdate {
  UpdateRecord record;
  std::string headers;  // describe the payload for recovery; durable rounds only
  // Tensors in the order of the specification, indices before values. Empty if `stored` is set.
  std::vector<std::string_view> payload;
  UploadPayload* stored = nullptr;
  uint64_t payload_bytes = 0;
  std::vector<uint64_t> nnz;  // [tensors], from their headers
  StagedTensors staged;
  std::shared_ptr<RoundPartial> partial;  // in place of `staged`, if the update is one
  Reservation growth;                     // aggregation memory, until the update is folded
};

// A round restored from the store.
struct RestoredRound {
  RoundSpec spec;
  RoundSnapshot snapshot;
  RoundClock clock;                               // OPEN only
  std::unique_ptr<TensorReducers> reducers;       // every update is folded in; OPEN or SEALED only
  CoveredUpdates covered;                         // OPEN or SEALED only
  std::shared_ptr<const PublishedResult> result;  // PUBLISHED only
  Reservation result_memory;
};

// Thread-safe. Owned by std::shared_ptr: folds in progress keep it alive.
class Round : public std::enable_shared_from_this<Round> {
 public:
  // REQUIRES: before the round becomes visible, the store has an open round `name` with the anchor
  // of `clock`.
  Round(std::string name, std::unique_ptr<TensorReducers> reducers, RoundClock clock,
        const RoundServices& services);
  Round(std::string name, RestoredRound restored, const RoundServices& services);
  // Schedules the first policy check of a new round. Call it once the round is visible.
  void Start() { SchedulePolicyCheck(); }
  // Continues a restored round: schedules the policy checks of an open one, publishes a sealed one.
  // Call it once.
  absl::Status Resume();

  const std::string& name() const { return name_; }  // qualified; the key in every table
  const RoundSpec& spec() const { return spec_; }
  std::chrono::system_clock::time_point create_time() const { return Snapshot().create_time; }
  RoundSnapshot Snapshot() const;
  RoundState state() const;
  // Returns FAILED_PRECONDITION (ROUND_NOT_PUBLISHED) unless the round is PUBLISHED.
  absl::StatusOr<std::shared_ptr<const PublishedResult>> Result() const;
  WatchHandle Watch(WatchScope what, OnChange on_change) {
    return watchers_.Add(what, std::move(on_change));
  }

  // Returns the reducers that stage updates. Errors: FAILED_PRECONDITION (ROUND_NOT_OPEN) unless
  // the round is OPEN and before its end; RESOURCE_EXHAUSTED (ROUND_FULL).
  absl::StatusOr<std::shared_ptr<const TensorReducers>> OpenReducers() const;
  // Returns the counted update of a contributor, if any, or FAILED_PRECONDITION (ROUND_NOT_OPEN) if
  // the round is ABORTED.
  absl::StatusOr<std::optional<UpdateRecord>> Counted(const std::string& contributor) const;

  // Counts an update, or returns the receipt of one that was already counted. Takes `staging` and
  // the staged entries only if it counts the update; they are released after the fold. Errors are
  // those of UpdateStore::Put() and of CoveredUpdates. A partial aggregate is committed like a cut:
  // while it is compared with the counted contributors, no other update is committed.
  absl::StatusOr<Receipt> Commit(PreparedUpdate& update, Reservation& staging);
  // Folds all counted updates on the strand without waiting for more to arrive.
  void FoldNow() { fold_queue_.FoldNow(); }
  // Returns the receipt for a resend without its bytes. REQUIRES: `record` came from Counted().
  Receipt AnswerResend(UpdateRecord record);
  // Counts a refused submission. A refusal with a time to retry after is not final and is not
  // counted.
  void CountRefusal(const absl::Status& refusal);

  // These are events of round_state.h. Errors: FAILED_PRECONDITION: ROUND_NOT_OPEN,
  // INSUFFICIENT_CONTRIBUTORS (seal), ROUND_NOT_ABORTABLE, ROUND_NOT_FINAL (delete); NOT_FOUND
  // (ROUND_NOT_FOUND) after Delete(). UNAVAILABLE (STORE_BUSY, abort) while the result is being
  // stored.
  absl::StatusOr<RoundSnapshot> Seal() { return Close(SealReason::kRequested); }
  // Seals the round of a root, whose rows its owners have.
  absl::StatusOr<RoundSnapshot> SealDivided(const DividedResult& divided) {
    return Close(SealReason::kRequested, divided);
  }
  absl::StatusOr<RoundSnapshot> Abort(const std::string& failure = "");
  // Deletes the round and calls `gone` before the deletion is visible to other calls, with the
  // tombstone if its name is remembered: if kRemembered, unless retry_horizon_ms is 0, or the round
  // is a leaf's that has counted nothing, whose name the root remembers. Its data on disk is erased
  // later.
  enum class NameAfter : uint8_t { kRemembered, kFree };
  absl::Status Delete(NameAfter name_after,
                      const std::function<void(const std::optional<Tombstone>&)>& gone);
  void NotifyDeleted() { watchers_.NotifyDeleted(); }  // the last call to each, after Delete()

 private:
  friend class RoundPublisher;

  absl::Status CheckExistsLocked() const;
  // Refuses updates of a deleted or aborted round, in which nothing counts.
  absl::Status CheckNotAbortedLocked() const;
  // Refuses a new contributor if the round is not OPEN, is over, or is full.
  absl::Status CheckAcceptsUpdatesLocked(std::chrono::steady_clock::time_point now) const;
  // Returns an error with the message "round x is STATE and `what`".
  absl::Status RefuseLocked(std::string_view reason, std::string_view what) const;
  absl::Status NotOpenLocked(std::string_view what) const;
  // The immediate answer to a request: an error, or the unchanged round for a retry. Nullopt if the
  // request still has to be carried out.
  using Answer = absl::StatusOr<std::optional<RoundSnapshot>>;
  Answer AnswerSeal() const;
  Answer AnswerAbort(const std::string& failure) const;
  absl::Status CheckDeletable() const;
  absl::Status ClosingLocked(SealReason reason) const;
  absl::Status FullLocked() const;
  // Translates a refusal of the store into the terms of the round's policy.
  absl::Status ExplainRefusal(const absl::Status& refusal) const;
  RoundSnapshot SnapshotLocked() const;
  Receipt MakeReceipt(UpdateRecord record, bool duplicate) const;
  // Returns the error of a contributor, or of one in a partial aggregate, that is counted already,
  // or for whom there is no room. REQUIRES: gate_ is held; exclusively for a partial aggregate.
  absl::Status CheckContributors(const PreparedUpdate& update) const;
  // Stores and counts an update, and sets `check_policy` if it reaches a limit of the policy.
  // REQUIRES: as CheckContributors().
  absl::StatusOr<PutResult> PutAndCount(PreparedUpdate& update, Reservation& staging,
                                        bool& check_policy);
  // The number of updates that the store has when the round is full; 0: it need not look.
  uint64_t StoreCapacity(const PreparedUpdate& update) const;
  void CountAcceptedLocked(const PreparedUpdate& update);
  // Updates the plan reports without a new revision: watchers see them with the next change.
  // Returns what is new since the last call.
  std::vector<ReductionReport> UpdatePlansLocked(std::vector<PlanReport> reports);
  void Observe(std::span<const ReductionReport> reductions) const;

  // Seals the round. Below the minimum of contributors, returns an error if `reason` is a request,
  // and otherwise aborts the round.
  absl::StatusOr<RoundSnapshot> Close(SealReason reason,
                                      std::optional<DividedResult> divided = std::nullopt);
  // Closes the round if its policy says so; otherwise schedules the next check. Runs on the strand,
  // so one check runs at a time.
  void ApplyPolicy();
  void SchedulePolicyCheck();
  void ScheduleRecheck(std::chrono::milliseconds after, uint64_t turn);
  // Starts the grace period if the goal is reached.
  void StartGraceAtGoalLocked();
  RoundProgress ProgressLocked(std::chrono::steady_clock::time_point now) const;

  // These run on the strand.
  void FoldBatch(std::vector<UpdateToFold> batch);
  absl::Status FoldAll(std::vector<UpdateToFold> updates);
  std::vector<uint64_t> EntriesReceived() const;  // [tensors]
  void Publish(std::vector<UpdateRecord> closed);

  // For RoundPublisher, in this order. RecordResult() adds the round's counts to the manifest and
  // returns the snapshot of the published round. BeginStoringResult() returns false if the round
  // has been aborted; until EndStoringResult() it cannot be.
  RoundSnapshot RecordResult(const PublishedResult& result, std::vector<PlanReport> reports,
                             Manifest manifest);
  bool BeginStoringResult();
  void EndStoringResult(const absl::Status& stored, const RoundSnapshot& published,
                        const std::shared_ptr<PublishedResult>& result);
  bool deleted() const;
  void RecordFailedErasure(const absl::Status& why);
  // Shows why the round does not go on, until it closes, is published or aborted.
  void RecordStall(const absl::Status& why);

  // Aborts the round with `status` as its failure. The updates of a durable round are erased,
  // unless the error is not their fault, so that a later start may succeed.
  void Fail(const absl::Status& status);

  // REQUIRES: gate_ is held exclusively and the event is legal.
  absl::Status AbortHoldingGate(std::string failure);
  void MarkAborted(std::string failure, std::chrono::system_clock::time_point when,
                   bool may_be_restored);
  std::shared_ptr<TensorReducers> Reducers() const;
  void NotifyChange();
  // Schedules one notification for all updates counted in a short interval, so that submitting
  // threads do not call watchers.
  void ScheduleCountNotification();
  // Closes the round's uploads and notifies watchers and the observer that the round accepts no
  // more updates.
  void NotifyEnd();
  // Notifies watchers and the observer of a change of state.
  void NotifyState();

  const std::string name_;  // qualified; callers see snapshot_.name
  const RoundSpec spec_;
  const RoundServices services_;
  Strand strand_{services_.executor};
  FoldQueue fold_queue_{services_.executor, strand_,
                        [this](std::vector<UpdateToFold> batch) { FoldBatch(std::move(batch)); },
                        [this] { return shared_from_this(); }};
  RoundPublisher publisher_{*this, services_, strand_};
  Watchers watchers_;
  mutable CommitGate gate_;
  CoveredUpdates covered_;  // guarded by gate_: changed while it is held exclusively

  mutable std::mutex mutex_;  // guards all below
  RoundClock clock_;
  bool anchor_is_stored_ = false;  // whether the store has the anchor of clock_
  // The number of the last policy check; timers of earlier checks do nothing.
  uint64_t policy_turn_ = 0;
  std::shared_ptr<TensorReducers> reducers_;  // null once reported or aborted
  bool count_notification_due_ = false;       // a notification of counted updates is scheduled
  // True while the store writes the result; the round is SEALED then, and cannot be aborted.
  bool storing_result_ = false;
  RoundSnapshot snapshot_;  // its spec stays empty: spec_ has it
  std::map<std::string, uint64_t> rejected_;
  std::map<std::string, uint64_t> late_;
  uint64_t duplicates_ = 0;
  std::shared_ptr<const PublishedResult> result_;
  bool deleted_ = false;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_ROUND_H_

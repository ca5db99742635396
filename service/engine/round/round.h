// One round: its state, the books of what was counted, and the strand on which its updates are
// folded.
//
// Two locks. `gate_` keeps commits (an update becomes counted) and cuts (seal, abort, delete)
// apart, so that every update is either in the sealed set and folded, or refused. A cut that waits
// for the gate keeps every commit out, so it looks at the state first and closes the gate only for
// what it will do, and nobody holds the gate while a result is written or updates are erased.
// `mutex_` guards the fields and is held for moments only. Lock order: gate_, mutex_. Nothing waits
// for an executor while it holds either; watchers are called without both.
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
#include "service/engine/round/commit_gate.h"
#include "service/engine/round/executor.h"
#include "service/engine/round/round_clock.h"
#include "service/engine/round/watchers.h"

namespace sparseagg {

class UploadTable;

// What all rounds of an engine use; outlives them.
struct RoundServices {
  const EngineOptions& options;
  UpdateStore& store;
  Executor& executor;
  Executor& eraser;  // one thread, for what waits long for the disk and nobody waits for
  UploadTable& uploads;
  std::shared_ptr<const void> budgets;  // what a round's memory is reserved from
  Admission& aggregation;               // of the round's tenant; one of them
  const std::atomic<bool>& draining;    // the engine's
};

// An update that passed every check and waits to be counted.
struct PreparedUpdate {
  UpdateRecord record;
  std::string headers;  // how to read the payload after a restart; for a durable round
  // In the order of the specification, indices before values; empty when it is stored already.
  std::vector<std::string_view> payload;
  PartialPayload* stored = nullptr;
  uint64_t payload_bytes = 0;
  std::vector<uint64_t> nnz;  // of each tensor, as its header says
  StagedTensors staged;
  Reservation growth;  // of the round's memory, until the update is folded in
};

// A counted update on its way into the sums.
struct UpdateToFold {
  StagedTensors staged;
  float weight = 1.0f;
  Reservation staging;  // of `staged`
  Reservation growth;   // of the round's memory
};

// A round as the store has kept it.
struct RestoredRound {
  RoundSpec spec;
  RoundSnapshot books;
  RoundClock clock;                          // OPEN only
  std::unique_ptr<TensorReducers> reducers;  // with every update folded in; OPEN or SEALED only
  std::shared_ptr<const PublishedResult> result;  // PUBLISHED only
  Reservation result_memory;
};

// Thread-safe. Owned by std::shared_ptr: folds under way keep it alive.
class Round : public std::enable_shared_from_this<Round> {
 public:
  // REQUIRES: the store has the books of `name` open, with the anchor of `clock`, when the round
  // becomes visible.
  Round(std::string name, std::unique_ptr<TensorReducers> reducers, RoundClock clock,
        const RoundServices& services);
  Round(std::string name, RestoredRound restored, const RoundServices& services);
  // Begins to follow the policy of a new round, once it is visible.
  void Start() { FollowPolicyLater(); }
  // Goes on where a restored round was stopped: follows the policy of an open one, publishes a
  // sealed one. Call it once.
  absl::Status Resume();

  const std::string& name() const { return name_; }  // qualified; the key in every table
  const RoundSpec& spec() const { return spec_; }
  std::chrono::system_clock::time_point create_time() const { return Snapshot().create_time; }
  RoundSnapshot Snapshot() const;
  RoundState state() const;
  // FAILED_PRECONDITION (ROUND_NOT_PUBLISHED) unless PUBLISHED.
  absl::StatusOr<std::shared_ptr<const PublishedResult>> Result() const;
  WatchHandle Watch(WatchFor what, OnChange on_change) {
    return watchers_.Add(what, std::move(on_change));
  }

  // What Stage() needs. FAILED_PRECONDITION (ROUND_NOT_OPEN) unless OPEN and before its end;
  // RESOURCE_EXHAUSTED (ROUND_FULL).
  absl::StatusOr<std::shared_ptr<const TensorReducers>> OpenReducers() const;
  // The counted update of a contributor, if any. FAILED_PRECONDITION (ROUND_NOT_OPEN) when ABORTED:
  // nothing counts.
  absl::StatusOr<std::optional<UpdateRecord>> Counted(const std::string& contributor) const;

  // Counts an update, or answers for one that was counted. Takes `staging` and the staged entries
  // only when it counts; they are released after the fold. Errors are those of UpdateStore::Put().
  absl::StatusOr<Receipt> Commit(PreparedUpdate& update, Reservation& staging);
  // Folds what has been counted on the strand, without waiting for more of it.
  void FoldNow();
  // Answers a resend without its bytes. REQUIRES: `record` came from Counted().
  Receipt AnswerResend(UpdateRecord record);
  // Enters a refused submission in the books. One that may be tried again is not final and not
  // entered.
  void CountRefusal(const absl::Status& refusal);

  // Events of round_state.h. FAILED_PRECONDITION: ROUND_NOT_OPEN, INSUFFICIENT_CONTRIBUTORS (seal),
  // ROUND_NOT_ABORTABLE, ROUND_NOT_FINAL (delete); NOT_FOUND (ROUND_NOT_FOUND) after Delete().
  // UNAVAILABLE (STORE_BUSY, abort) while the result is being stored.
  absl::StatusOr<RoundSnapshot> Seal() { return Close(SealReason::kRequested); }
  absl::StatusOr<RoundSnapshot> Abort();
  // Calls `gone` when the round is no more, before anybody can see that. What it has left on a disk
  // is erased later.
  absl::Status Delete(const std::function<void(const Tombstone&)>& gone);
  // The last call of every watcher; after Delete().
  void NotifyDeleted() { watchers_.NotifyDeleted(); }

 private:
  absl::Status CheckExistsLocked() const;
  // Refuses what cannot be counted any more nor have been counted before.
  absl::Status CheckNotGivenUpLocked() const;
  // Refuses an update of a contributor that is not counted.
  absl::Status CheckTakesMoreLocked(std::chrono::steady_clock::time_point now) const;
  // "round x is STATE and `what`".
  absl::Status RefuseLocked(std::string_view reason, std::string_view what) const;
  absl::Status NotOpenLocked(std::string_view what) const;
  // Whether there is something to do for these requests, or their answer: an error, or for a retry
  // the round as it is.
  using Answer = absl::StatusOr<std::optional<RoundSnapshot>>;
  Answer AnswerSeal() const;
  Answer AnswerAbort() const;
  absl::Status CheckDeletable() const;
  absl::Status ClosingLocked(SealReason reason) const;
  absl::Status FullLocked() const;
  // The store's refusal in the words of the round's policy.
  absl::Status WhyNotPut(const absl::Status& refusal) const;
  RoundSnapshot SnapshotLocked() const;
  Receipt MakeReceipt(UpdateRecord record, bool duplicate) const;
  void CountAcceptedLocked(const PreparedUpdate& update);
  // No change of its own: the revision stays, watchers see it with the next one. Returns what is
  // new since the last time.
  std::vector<ReductionReport> EnterPlansLocked(std::vector<PlanReport> reports);
  void Observe(std::span<const ReductionReport> reductions) const;

  // Seals, or gives up below the minimum (unless requested).
  absl::StatusOr<RoundSnapshot> Close(SealReason reason);
  // Closes the round when it is time, or looks again when it may be. On the strand: one at a time.
  void FollowPolicy();
  void FollowPolicyLater();
  void LookAgain(std::chrono::milliseconds after, uint64_t turn);
  // Starts the grace when the goal is reached.
  void EnterGoalLocked();
  RoundProgress ProgressLocked(std::chrono::steady_clock::time_point now) const;

  // When the next turn of FoldWaiting() is to be posted, if it is not yet.
  enum class FoldTurn { kNone, kNow, kSoon };
  FoldTurn WaitToBeFoldedLocked(UpdateToFold update);
  FoldTurn NextFoldTurnLocked();
  void PostFold(FoldTurn turn);

  // On the strand.
  void FoldWaiting();
  std::vector<UpdateToFold> TakeWaiting();
  absl::Status FoldAll(std::vector<UpdateToFold> updates);
  std::vector<uint64_t> EntriesReceived() const;  // of each tensor
  void Publish(std::vector<UpdateRecord> closed);
  // Computes the result again if this is one of the rounds that are verified. RESULT_MISMATCH.
  absl::Status SpotCheck(const PublishedResult& result);
  // Keeps the result and makes it readable; comes back later while the disk is full.
  void StoreResult(std::shared_ptr<PublishedResult> result, const RoundSnapshot& published);
  // On the eraser.
  void ErasePayloadsLater();
  void ErasePayloads();
  // Runs `step` on the strand after a while, and tells the observer now and then.
  void TryLater(const absl::Status& refusal, Task step);
  void TellOfWait(const absl::Status& refusal);
  // The round ends with an error. What a durable one has stored is erased, unless the updates are
  // not to blame.
  void Fail(const absl::Status& status);

  // REQUIRES: gate_ is held exclusively and the event is legal.
  absl::Status GiveUp(std::string failure);
  void MarkAborted(std::string failure, std::chrono::system_clock::time_point when);
  std::shared_ptr<TensorReducers> Reducers() const;
  void NotifyChange();
  // Counted updates that follow one another are told together, and not by those who submit them.
  void NotifyCountLater();
  // No more updates are accepted: tells uploads, and who watches and observes.
  void NotifyEnd();
  // The same to the latter, after another change of the state.
  void NotifyState();

  const std::string name_;  // qualified; outside, books_.name is used
  const RoundSpec spec_;
  const RoundServices services_;
  Strand strand_;
  Watchers watchers_;
  mutable CommitGate gate_;

  mutable std::mutex mutex_;  // guards all below
  RoundClock clock_;
  bool anchor_is_stored_ = false;             // of clock_
  uint64_t policy_turn_ = 0;                  // of looks; a timer of an earlier one does nothing
  std::shared_ptr<TensorReducers> reducers_;  // null once reported or given up
  std::vector<UpdateToFold> to_fold_;
  uint64_t to_fold_bytes_ = 0;
  bool folding_ = false;    // a turn is posted or running
  bool fold_due_ = false;   // one will be posted in a moment
  bool count_due_ = false;  // watchers will be told of counted updates in a moment
  // The store writes the result: the round is SEALED, and is not given up before that has ended.
  bool storing_result_ = false;
  RoundSnapshot books_;  // spec left empty: spec_ never changes
  std::map<std::string, uint64_t> rejected_;
  std::map<std::string, uint64_t> late_;
  uint64_t duplicates_ = 0;
  std::shared_ptr<const PublishedResult> result_;
  bool deleted_ = false;
  std::chrono::steady_clock::time_point next_word_;  // of a wait
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_ROUND_H_

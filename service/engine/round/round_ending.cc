// The ends of a Round: sealed on request or by its policy, aborted, deleted.
#include <algorithm>
#include <shared_mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/recovery/stored.h"
#include "service/engine/recovery/verify.h"
#include "service/engine/round/round.h"
#include "service/engine/upload/upload_table.h"
#include "service/store/store_errors.h"

namespace sparseagg {
namespace {

// Returns whether the error is no fault of the updates, so that they could give a result later or
// elsewhere: a lack of memory, a back end that differs from the reference, or one that loses
// entries.
bool MaySucceedLater(const absl::Status& error) {
  if (ErrorReason(error) == kResultMismatch || ErrorReason(error) == "NOT_EXACT") return true;
  return absl::IsResourceExhausted(error) && ErrorReason(error) != "TOO_MANY_ENTRIES";
}

std::string InsufficientText(uint64_t contributors, uint64_t minimum) {
  return absl::StrCat(contributors, " of at least ", minimum, " contributors");
}

}  // namespace

// --- Sealing ---

Round::Answer Round::AnswerSeal() const {
  std::lock_guard lock(mutex_);
  SPARSEAGG_RETURN_IF_ERROR(CheckExistsLocked());
  if (!Next(snapshot_.state, RoundEvent::kSeal).has_value()) {
    return NotOpenLocked("cannot be sealed");
  }
  if (snapshot_.state != RoundState::kOpen) return SnapshotLocked();  // a retry
  return std::nullopt;
}

absl::StatusOr<RoundSnapshot> Round::Close(SealReason reason,
                                           std::optional<DividedResult> divided) {
  SPARSEAGG_ASSIGN_OR_RETURN(std::optional<RoundSnapshot> answer, AnswerSeal());
  if (answer.has_value()) return *std::move(answer);
  std::unique_lock gate(gate_);
  SPARSEAGG_ASSIGN_OR_RETURN(answer, AnswerSeal());  // another call may have sealed it
  if (answer.has_value()) return *std::move(answer);
  RoundSnapshot sealed = Snapshot();
  const Closing closing = HowToClose(spec_.policy, reason, sealed.contributors);
  if (closing != Closing::kSeal) {
    const std::string count = InsufficientText(sealed.contributors, spec_.policy.min_contributors);
    if (closing == Closing::kRefuse) {
      std::lock_guard lock(mutex_);
      return RefuseLocked("INSUFFICIENT_CONTRIBUTORS",
                          absl::StrCat("has ", count, "; wait for more, or abort it"));
    }
    SPARSEAGG_RETURN_IF_ERROR(
        AbortHoldingGate(absl::StrCat("INSUFFICIENT_CONTRIBUTORS: ", count, " at the deadline")));
    gate.unlock();
    NotifyEnd();
    return Snapshot();
  }
  sealed.seal_time = services_.options.now();
  sealed.seal_reason = reason;
  sealed.divided = std::move(divided);
  SPARSEAGG_ASSIGN_OR_RETURN(std::vector<UpdateRecord> closed,
                             services_.store.CloseRound(name_, WriteDetails(sealed)));
  {
    std::lock_guard lock(mutex_);
    snapshot_.state = *Next(snapshot_.state, RoundEvent::kSeal);
    snapshot_.stall = absl::OkStatus();
    snapshot_.seal_time = sealed.seal_time;
    snapshot_.seal_reason = sealed.seal_reason;
    snapshot_.divided = sealed.divided;
    ++snapshot_.revision;
    sealed = SnapshotLocked();
  }
  gate.unlock();
  NotifyEnd();  // before the result is published, so that watchers see the states in order
  // No commit is in progress: every accepted update is folded or queued.
  strand_.Post([self = shared_from_this(), closed = std::move(closed)]() mutable {
    self->Publish(std::move(closed));
  });
  return sealed;
}

// --- The policy ---

void Round::SchedulePolicyCheck() {
  {
    std::lock_guard lock(mutex_);
    if (spec_.tree.is_root()) return;  // service/tree/ seals it, after its leaves
    if (spec_.policy.goal_contributors == 0 && !clock_.CloseTime().has_value()) return;
  }
  strand_.Post([self = shared_from_this()] { self->ApplyPolicy(); });
}

void Round::ApplyPolicy() {
  const Moment now = {services_.options.now(), services_.options.steady_now()};
  std::optional<SealReason> reason;
  RoundClock::Remaining left;
  RoundAnchor anchor;
  bool keep_anchor = false;
  uint64_t turn = 0;
  {
    std::lock_guard lock(mutex_);
    if (deleted_ || snapshot_.state != RoundState::kOpen) return;
    StartGraceAtGoalLocked();
    if (clock_.WallClockWasSet(now)) {
      clock_.AnchorAt(now);
      anchor_is_stored_ = false;
    }
    anchor = clock_.anchor();
    keep_anchor = !std::exchange(anchor_is_stored_, true) && clock_.CloseTime().has_value();
    const RoundProgress progress = ProgressLocked(now.steady);
    reason = ReasonToClose(spec_.policy, progress);
    left = TimeLeft(progress);
    turn = ++policy_turn_;
  }
  if (reason.has_value()) {
    const auto closed = Close(*reason);
    if (closed.ok() || absl::IsNotFound(closed.status())) return;
    if (RetryAfterMs(closed.status()) == 0) return Fail(closed.status());
    RecordStall(closed.status());
    publisher_.ReportStall(closed.status());
    return ScheduleRecheck(std::chrono::milliseconds(RetryAfterMs(closed.status())), turn);
  }
  if (keep_anchor && !services_.store.SetRoundDetails(name_, WriteAnchor(anchor)).ok()) {
    std::lock_guard lock(mutex_);
    anchor_is_stored_ = false;  // retried at the next check
  }
  if (left.has_value()) ScheduleRecheck(*left, turn);
}

void Round::ScheduleRecheck(std::chrono::milliseconds after, uint64_t turn) {
  const auto look = [weak = weak_from_this(), turn] {
    const std::shared_ptr<Round> self = weak.lock();
    if (self == nullptr) return;
    {
      std::lock_guard lock(self->mutex_);
      if (self->policy_turn_ != turn) return;  // a later check has its own timer
    }
    self->SchedulePolicyCheck();
  };
  services_.executor.PostAfter(std::min(after, services_.options.check_interval), look);
}

void Round::StartGraceAtGoalLocked() {
  if (spec_.tree.is_root() || !GoalReached(spec_.policy, snapshot_.contributors)) return;
  if (spec_.policy.grace.count() == 0 || clock_.anchor().until_grace_end.has_value()) return;
  clock_.StartGrace(spec_.policy.grace, {services_.options.now(), services_.options.steady_now()});
  anchor_is_stored_ = false;
}

RoundProgress Round::ProgressLocked(std::chrono::steady_clock::time_point now) const {
  return {.contributors = snapshot_.contributors,
          .until_deadline = clock_.UntilDeadline(now),
          .until_grace_end = clock_.UntilGraceEnd(now)};
}

// --- Aborting and deleting ---

Round::Answer Round::AnswerAbort(const std::string& failure) const {
  std::lock_guard lock(mutex_);
  SPARSEAGG_RETURN_IF_ERROR(CheckExistsLocked());
  // What a leaf has published is a part of its root's round, and of no use without it.
  const bool is_left_out = !failure.empty() && !spec_.tree.self.empty();
  if (is_left_out && snapshot_.state == RoundState::kPublished) return std::nullopt;
  const auto next = Next(snapshot_.state, RoundEvent::kAbort);
  if (!next.has_value()) {
    return RefuseLocked("ROUND_NOT_ABORTABLE", "cannot be aborted; delete it instead");
  }
  // A retry, unless the round is not aborted in the store.
  if (*next == snapshot_.state && !snapshot_.may_be_restored) return SnapshotLocked();
  if (!storing_result_) return std::nullopt;
  return StoreBusy(absl::StrCat("the result of round \"", snapshot_.name,
                                "\" is being stored; try again when it is stored"));
}

absl::StatusOr<RoundSnapshot> Round::Abort(const std::string& failure) {
  SPARSEAGG_ASSIGN_OR_RETURN(std::optional<RoundSnapshot> answer, AnswerAbort(failure));
  if (answer.has_value()) return *std::move(answer);
  {
    std::unique_lock gate(gate_);
    SPARSEAGG_ASSIGN_OR_RETURN(answer, AnswerAbort(failure));  // another call may have been faster
    if (answer.has_value()) return *std::move(answer);
    SPARSEAGG_RETURN_IF_ERROR(AbortHoldingGate(failure));
  }
  NotifyEnd();
  return Snapshot();
}

absl::Status Round::AbortHoldingGate(std::string failure) {
  RoundSnapshot aborted = Snapshot();
  aborted.failure = failure;
  aborted.abort_time = services_.options.now();
  aborted.publish_time.reset();
  aborted.manifest.reset();
  SPARSEAGG_RETURN_IF_ERROR(services_.store.AbortRound(name_, WriteDetails(aborted)));
  MarkAborted(std::move(failure), *aborted.abort_time, /*may_be_restored=*/false);
  return absl::OkStatus();
}

void Round::MarkAborted(std::string failure, std::chrono::system_clock::time_point when,
                        bool may_be_restored) {
  // Freed after the lock is released, or by a fold or a reader in progress.
  std::shared_ptr<TensorReducers> freed;
  std::shared_ptr<const PublishedResult> result;
  std::lock_guard lock(mutex_);
  snapshot_.may_be_restored = may_be_restored;
  snapshot_.may_open_again = may_be_restored && snapshot_.state == RoundState::kOpen;
  snapshot_.state = RoundState::kAborted;
  snapshot_.publish_time.reset();
  snapshot_.manifest.reset();
  result = std::move(result_);
  snapshot_.failure = std::move(failure);
  snapshot_.stall = absl::OkStatus();
  snapshot_.abort_time = when;
  ++snapshot_.revision;
  freed = std::move(reducers_);
  publisher_.ScheduleErasure();
}

void Round::Fail(const absl::Status& status) {
  {
    std::unique_lock gate(gate_);
    if (Reducers() == nullptr) return;  // aborted concurrently
    RoundSnapshot failed = Snapshot();
    bool may_be_restored = false;
    failed.failure = std::string(status.message());
    failed.abort_time = services_.options.now();
    if (spec_.durability == Durability::kDurable && MaySucceedLater(status)) {
      may_be_restored = true;
      absl::StrAppend(&failed.failure,
                      "; its updates are kept: the next start of the server restores the round, "
                      "DeleteRound deletes it");
    } else {
      // The round ends even if the store cannot record it now: DeleteRound() tries again.
      const absl::Status aborted = services_.store.AbortRound(name_, WriteDetails(failed));
      if (!aborted.ok()) {
        absl::StrAppend(&failed.failure, "; and: ", std::string(aborted.message()));
      }
    }
    MarkAborted(std::move(failed.failure), *failed.abort_time, may_be_restored);
  }
  NotifyEnd();
}

absl::Status Round::CheckDeletable() const {
  std::lock_guard lock(mutex_);
  SPARSEAGG_RETURN_IF_ERROR(CheckExistsLocked());
  if (IsFinal(snapshot_.state)) return absl::OkStatus();
  return RefuseLocked("ROUND_NOT_FINAL", "cannot be deleted; abort it first");
}

absl::Status Round::Delete(NameAfter name_after,
                           const std::function<void(const std::optional<Tombstone>&)>& gone) {
  SPARSEAGG_RETURN_IF_ERROR(CheckDeletable());
  std::unique_lock gate(gate_);
  SPARSEAGG_RETURN_IF_ERROR(CheckDeletable());  // another call may have deleted it
  std::optional<Tombstone> tombstone;
  const RoundSnapshot last = Snapshot();
  const bool is_unused_leaf = !spec_.tree.self.empty() && last.contributors == 0;
  if (name_after == NameAfter::kRemembered && !is_unused_leaf &&
      services_.options.limits.retry_horizon_ms > 0) {
    tombstone = {.round = name_, .erased = services_.options.now()};
    if (last.state == RoundState::kPublished) tombstone->ended = RoundPhase::kPublished;
  }
  SPARSEAGG_RETURN_IF_ERROR(tombstone.has_value() ? services_.store.RetireRound(*tombstone)
                                                  : services_.store.EraseRound(name_));
  RoundSnapshot retired;
  {
    std::lock_guard lock(mutex_);
    snapshot_.state = Next(snapshot_.state, RoundEvent::kRetire).value_or(snapshot_.state);
    result_.reset();
    deleted_ = true;
    retired = SnapshotLocked();
  }
  gone(tombstone);
  gate.unlock();
  if (spec_.durability == Durability::kDurable) {
    services_.eraser.Post([&store = services_.store] {
      store.EraseLeftovers().IgnoreError();  // maintenance tries again what fails now
    });
  }
  retired.state = RoundState::kRetired;  // also for an aborted round
  services_.options.observer->OnRoundState(retired);
  return absl::OkStatus();
}

void Round::NotifyEnd() {
  absl::Status why;
  {
    std::lock_guard lock(mutex_);
    why = NotOpenLocked("ended before the update was complete");
  }
  services_.uploads.DropRound(name_, this, why);
  if (spec_.durability == Durability::kDurable) {
    services_.eraser.Post(
        [&store = services_.store, name = name_] { store.DropUploadPayloads(name); });
  }
  NotifyState();
}

}  // namespace sparseagg

#include "service/engine/round/round.h"

#include <shared_mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/names.h"
#include "service/engine/result/held_result.h"

namespace sparseagg {
namespace {

// The metadata key of a refusal that says why no more updates are accepted.
constexpr char kClosedBy[] = "closed_by";

}  // namespace

Round::Round(std::string name, std::unique_ptr<TensorReducers> reducers, RoundClock clock,
             const RoundServices& services)
    : name_(std::move(name)),
      spec_(reducers->spec()),
      services_(services),
      clock_(clock),
      anchor_is_stored_(true),
      reducers_(std::move(reducers)) {
  snapshot_.tenant = std::string(TenantOf(name_));
  snapshot_.name = std::string(PublicName(name_));
  snapshot_.create_time = clock_.anchor().wall;  // the moment at which the clock starts
  snapshot_.tensors = reducers_->Describe();
  snapshot_.revision = 1;
}

Round::Round(std::string name, RestoredRound restored, const RoundServices& services)
    : name_(std::move(name)),
      spec_(std::move(restored.spec)),
      services_(services),
      covered_(std::move(restored.covered)),
      clock_(restored.clock),
      reducers_(std::move(restored.reducers)),
      snapshot_(std::move(restored.snapshot)) {
  snapshot_.start.contributors = snapshot_.contributors;
  if (restored.result != nullptr) {
    result_ = HoldMemory(std::move(restored.result), std::move(restored.result_memory),
                         services_.budgets);
  }
  snapshot_.tenant = std::string(TenantOf(name_));
  snapshot_.name = std::string(PublicName(name_));
}

absl::Status Round::Resume() {
  SchedulePolicyCheck();
  if (Snapshot().state != RoundState::kSealed) return absl::OkStatus();
  SPARSEAGG_ASSIGN_OR_RETURN(std::vector<UpdateRecord> closed,
                             services_.store.CloseRound(name_, /*details=*/""));
  strand_.Post([self = shared_from_this(), closed = std::move(closed)]() mutable {
    self->Publish(std::move(closed));
  });
  return absl::OkStatus();
}

// --- State and checks ---

RoundSnapshot Round::Snapshot() const {
  std::lock_guard lock(mutex_);
  return SnapshotLocked();
}

RoundState Round::state() const {
  std::lock_guard lock(mutex_);
  return snapshot_.state;
}

RoundSnapshot Round::SnapshotLocked() const {
  RoundSnapshot snapshot = snapshot_;
  snapshot.spec = spec_;
  snapshot.epoch = services_.store.Epoch();
  snapshot.start.id = services_.start_id;
  snapshot.goal_reached = GoalReached(spec_.policy, snapshot_.contributors);
  if (snapshot_.state == RoundState::kOpen) {
    snapshot.close_time = clock_.CloseTime();
    snapshot.time_left = TimeLeft(ProgressLocked(services_.options.steady_now()));
  }
  return snapshot;
}

absl::StatusOr<std::shared_ptr<const PublishedResult>> Round::Result() const {
  std::lock_guard lock(mutex_);
  SPARSEAGG_RETURN_IF_ERROR(CheckExistsLocked());
  if (result_ != nullptr) return result_;
  return RefuseLocked(
      "ROUND_NOT_PUBLISHED",
      absl::StrCat("has no result", snapshot_.state == RoundState::kOpen ? "; seal it first" : "",
                   snapshot_.state == RoundState::kSealed ? " yet" : ""));
}

absl::StatusOr<std::shared_ptr<const TensorReducers>> Round::OpenReducers() const {
  const auto now = services_.options.steady_now();
  std::lock_guard lock(mutex_);
  SPARSEAGG_RETURN_IF_ERROR(CheckAcceptsUpdatesLocked(now));
  return reducers_;
}

absl::StatusOr<std::optional<UpdateRecord>> Round::Counted(const std::string& contributor) const {
  std::shared_lock gate(gate_);
  {
    std::lock_guard lock(mutex_);
    SPARSEAGG_RETURN_IF_ERROR(CheckNotAbortedLocked());
  }
  return services_.store.Find(name_, contributor);
}

absl::Status Round::CheckExistsLocked() const {
  if (!deleted_) return absl::OkStatus();
  return MakeError(absl::StatusCode::kNotFound, "ROUND_NOT_FOUND",
                   absl::StrCat("round \"", snapshot_.name, "\" does not exist"));
}

absl::Status Round::CheckNotAbortedLocked() const {
  SPARSEAGG_RETURN_IF_ERROR(CheckExistsLocked());
  if (snapshot_.state != RoundState::kAborted) return absl::OkStatus();
  return NotOpenLocked("accepts no updates");
}

absl::Status Round::CheckAcceptsUpdatesLocked(std::chrono::steady_clock::time_point now) const {
  SPARSEAGG_RETURN_IF_ERROR(CheckExistsLocked());
  if (snapshot_.state != RoundState::kOpen) return NotOpenLocked("accepts no updates");
  if (spec_.tree.is_root()) return absl::OkStatus();  // service/tree/ applies the policy
  const auto closing = ReasonToClose(spec_.policy, ProgressLocked(now));
  if (closing.has_value()) return ClosingLocked(*closing);
  const uint64_t capacity = Capacity(spec_.policy);
  if (capacity == 0 || snapshot_.contributors < capacity) return absl::OkStatus();
  return FullLocked();
}

absl::Status Round::ClosingLocked(SealReason reason) const {
  return WithMetadata(RefuseLocked("ROUND_NOT_OPEN", "accepts no more updates: it is being closed"),
                      kClosedBy, SealReasonName(reason));
}

absl::Status Round::FullLocked() const {
  if (EndsAtGoal(spec_.policy)) return ClosingLocked(SealReason::kGoal);
  return WithMetadata(MakeError(absl::StatusCode::kResourceExhausted, "ROUND_FULL",
                                absl::StrCat("round \"", snapshot_.name, "\" has its maximum of ",
                                             spec_.policy.max_contributors,
                                             " contributors; contribute to the next one")),
                      kClosedBy, "FULL");
}

absl::Status Round::RefuseLocked(std::string_view reason, std::string_view what) const {
  const std::string_view state = RoundStateName(snapshot_.state);
  const bool failed = snapshot_.state == RoundState::kAborted && !snapshot_.failure.empty();
  const std::string why = failed ? absl::StrCat(" (", snapshot_.failure, ")") : "";
  return WithMetadata(MakeError(absl::StatusCode::kFailedPrecondition, reason,
                                absl::StrCat("round \"", snapshot_.name, "\" is ",
                                             std::string(state), why, " and ", std::string(what))),
                      "state", state);
}

absl::Status Round::NotOpenLocked(std::string_view what) const {
  absl::Status refusal = RefuseLocked("ROUND_NOT_OPEN", what);
  if (snapshot_.failure.starts_with(kLeafGivenUp)) {
    return WithMetadata(std::move(refusal), kClosedBy, kLeafGivenUp);
  }
  if (snapshot_.seal_reason.has_value()) {
    return WithMetadata(std::move(refusal), kClosedBy, SealReasonName(*snapshot_.seal_reason));
  }
  return refusal;
}

// --- Counting ---

absl::StatusOr<Receipt> Round::Commit(PreparedUpdate& update, Reservation& staging) {
  std::shared_lock commit(gate_, std::defer_lock);
  std::unique_lock cut(gate_, std::defer_lock);
  update.partial == nullptr ? commit.lock() : cut.lock();
  {
    std::lock_guard lock(mutex_);
    SPARSEAGG_RETURN_IF_ERROR(CheckNotAbortedLocked());
  }
  bool check_policy = false;
  SPARSEAGG_ASSIGN_OR_RETURN(PutResult put, PutAndCount(update, staging, check_policy));
  if (put.outcome == PutOutcome::kDuplicate) return AnswerResend(std::move(put.record));
  commit.owns_lock() ? commit.unlock() : cut.unlock();
  if (check_policy) SchedulePolicyCheck();
  ScheduleCountNotification();
  return MakeReceipt(std::move(put.record), /*duplicate=*/false);
}

absl::StatusOr<PutResult> Round::PutAndCount(PreparedUpdate& update, Reservation& staging,
                                             bool& check_policy) {
  SPARSEAGG_RETURN_IF_ERROR(CheckContributors(update));
  auto stored =
      services_.store.Put(std::move(update.record),
                          {update.headers, update.payload, StoreCapacity(update), update.stored});
  if (!stored.ok()) return ExplainRefusal(stored.status());
  if (stored->outcome == PutOutcome::kDuplicate) return stored;
  {
    std::lock_guard lock(mutex_);
    const uint64_t before = snapshot_.contributors;
    CountAcceptedLocked(update);
    StartGraceAtGoalLocked();
    for (const uint64_t limit : {spec_.policy.goal_contributors, spec_.policy.max_contributors}) {
      check_policy = check_policy || (before < limit && snapshot_.contributors >= limit);
    }
  }
  if (update.partial != nullptr) {
    covered_.Add(stored->record.contributor, std::move(update.partial->covered));
  }
  // Before the gate opens, so that a cut posts its tasks behind the fold.
  fold_queue_.Push({std::move(update.staged), std::move(update.partial), stored->record.weight,
                    std::move(staging), std::move(update.growth)});
  return stored;
}

absl::Status Round::CheckContributors(const PreparedUpdate& update) const {
  SPARSEAGG_RETURN_IF_ERROR(covered_.CheckNotCovered(update.record.contributor));
  const auto is_counted = [&](const std::string& contributor) {
    return services_.store.Find(name_, contributor).has_value();
  };
  // The store recognises a resend, of which nothing is counted again.
  if (update.partial == nullptr || is_counted(update.record.contributor)) return absl::OkStatus();
  SPARSEAGG_RETURN_IF_ERROR(
      covered_.CheckDisjoint(update.record.contributor, update.partial->covered, is_counted));
  if (spec_.tree.is_root()) return absl::OkStatus();
  const uint64_t capacity = Capacity(spec_.policy);
  const uint64_t more = update.partial->covered.size();
  std::lock_guard lock(mutex_);
  if (capacity == 0 || snapshot_.contributors + more <= capacity) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted, "ROUND_FULL",
                   absl::StrCat("round \"", snapshot_.name, "\" has ", snapshot_.contributors,
                                " of at most ", capacity, " contributors, so the ", more,
                                " of the partial aggregate have no room"));
}

uint64_t Round::StoreCapacity(const PreparedUpdate& update) const {
  const uint64_t capacity = Capacity(spec_.policy);
  if (capacity == 0 || update.partial != nullptr) return 0;
  // A partial aggregate is one update of the store, and as many contributors as it covers.
  return capacity + covered_.partials() - covered_.contributors();
}

absl::Status Round::ExplainRefusal(const absl::Status& refusal) const {
  const std::string reason = ErrorReason(refusal);
  std::lock_guard lock(mutex_);
  if (reason == "ROUND_NOT_OPEN") return NotOpenLocked("accepts no updates");
  // The updates that fill the round may be stored and not yet counted in memory.
  if (reason == "ROUND_FULL") return FullLocked();
  return refusal;
}

void Round::CountAcceptedLocked(const PreparedUpdate& update) {
  snapshot_.contributors += update.partial == nullptr ? 1 : update.partial->covered.size();
  snapshot_.bytes_received += update.payload_bytes;
  for (size_t i = 0; i < update.nnz.size(); ++i) {
    snapshot_.tensors[i].nnz_received += update.nnz[i];
  }
  ++snapshot_.revision;
}

std::vector<ReductionReport> Round::UpdatePlansLocked(std::vector<PlanReport> reports) {
  std::vector<ReductionReport> fresh;
  for (size_t i = 0; i < reports.size(); ++i) {
    TensorStatus& tensor = snapshot_.tensors[i];
    const PlanReport before = std::exchange(tensor.reduction, std::move(reports[i]));
    const PlanReport& now = tensor.reduction;
    if (now.seconds == before.seconds) continue;
    fresh.push_back({.backend = tensor.backend,
                     .plan = now.plan,
                     .seconds = now.seconds - before.seconds,
                     .predicted_seconds = now.predicted_seconds - before.predicted_seconds});
  }
  return fresh;
}

void Round::Observe(std::span<const ReductionReport> reductions) const {
  for (const ReductionReport& report : reductions) services_.options.observer->OnReduction(report);
}

Receipt Round::AnswerResend(UpdateRecord record) {
  std::lock_guard lock(mutex_);
  ++duplicates_;
  return MakeReceipt(std::move(record), /*duplicate=*/true);
}

Receipt Round::MakeReceipt(UpdateRecord record, bool duplicate) const {
  return {.round = std::string(PublicName(name_)),
          .contributor = std::move(record.contributor),
          .update_id = std::move(record.update_id),
          .duplicate = duplicate,
          .sequence = record.sequence,
          .digest = std::move(record.digest),
          .durability = spec_.durability,
          .epoch = services_.store.Epoch()};
}

void Round::CountRefusal(const absl::Status& refusal) {
  if (RetryAfterMs(refusal) > 0) return;
  const std::string reason = ErrorReason(refusal);
  const auto metadata = ErrorMetadata(refusal);
  const auto closed_by = metadata.find(kClosedBy);
  std::lock_guard lock(mutex_);
  ++rejected_[reason.empty() ? "UNKNOWN" : reason];
  if (closed_by != metadata.end()) ++late_[closed_by->second];
}

}  // namespace sparseagg

#include "service/engine/round.h"

#include <shared_mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/engine/manifest.h"
#include "service/engine/names.h"
#include "service/engine/stored.h"
#include "sparse/status.h"

namespace sparseagg {
namespace {

absl::Status FailedPrecondition(std::string_view reason, std::string_view message) {
  return MakeError(absl::StatusCode::kFailedPrecondition, reason, message);
}

std::string StateOf(const RoundSnapshot& books) {
  return absl::StrCat("round \"", books.name, "\" is ", std::string(RoundStateName(books.state)));
}

}  // namespace

Round::Round(std::string name, std::unique_ptr<TensorReducers> reducers,
             const RoundServices& services)
    : name_(std::move(name)),
      spec_(reducers->spec()),
      services_(services),
      strand_(services.executor),
      reducers_(std::move(reducers)) {
  books_.tenant = std::string(TenantOf(name_));
  books_.name = std::string(PublicName(name_));
  books_.create_time = services_.options.now();
  books_.tensors = reducers_->Describe();
  books_.revision = 1;
}

Round::Round(std::string name, RestoredRound restored, const RoundServices& services)
    : name_(std::move(name)),
      spec_(std::move(restored.spec)),
      services_(services),
      strand_(services.executor),
      reducers_(std::move(restored.reducers)),
      books_(std::move(restored.books)),
      result_(std::move(restored.result)),
      result_memory_(std::move(restored.result_memory)) {
  books_.tenant = std::string(TenantOf(name_));
  books_.name = std::string(PublicName(name_));
}

absl::Status Round::Resume() {
  if (Snapshot().state != RoundState::kSealed) return absl::OkStatus();
  SPARSEAGG_ASSIGN_OR_RETURN(std::vector<UpdateRecord> closed,
                             services_.store.CloseRound(name_, /*details=*/""));
  strand_.Post([self = shared_from_this(), closed = std::move(closed)]() mutable {
    self->Publish(std::move(closed));
  });
  return absl::OkStatus();
}

// --- Looking ---

RoundSnapshot Round::Snapshot() const {
  std::lock_guard lock(mutex_);
  return SnapshotLocked();
}

RoundState Round::state() const {
  std::lock_guard lock(mutex_);
  return books_.state;
}

RoundSnapshot Round::SnapshotLocked() const {
  RoundSnapshot snapshot = books_;
  snapshot.spec = spec_;
  return snapshot;
}

absl::StatusOr<std::shared_ptr<const PublishedResult>> Round::Result() const {
  std::lock_guard lock(mutex_);
  SPARSEAGG_RETURN_IF_ERROR(CheckExistsLocked());
  if (result_ != nullptr) return result_;
  return FailedPrecondition("ROUND_NOT_PUBLISHED",
                            absl::StrCat(StateOf(books_), " and has no result",
                                         books_.state == RoundState::kOpen ? "; seal it first" : "",
                                         books_.state == RoundState::kSealed ? " yet" : ""));
}

absl::StatusOr<std::shared_ptr<const TensorReducers>> Round::OpenReducers() const {
  std::lock_guard lock(mutex_);
  SPARSEAGG_RETURN_IF_ERROR(CheckExistsLocked());
  if (books_.state != RoundState::kOpen) return NotOpenLocked("accepts no updates");
  return reducers_;
}

absl::StatusOr<std::optional<UpdateRecord>> Round::Counted(const std::string& contributor) const {
  std::shared_lock gate(gate_);
  {
    std::lock_guard lock(mutex_);
    SPARSEAGG_RETURN_IF_ERROR(CheckNotGivenUpLocked());
  }
  return services_.store.Find(name_, contributor);
}

absl::Status Round::CheckExistsLocked() const {
  if (!deleted_) return absl::OkStatus();
  return MakeError(absl::StatusCode::kNotFound, "ROUND_NOT_FOUND",
                   absl::StrCat("round \"", books_.name, "\" does not exist"));
}

absl::Status Round::CheckNotGivenUpLocked() const {
  SPARSEAGG_RETURN_IF_ERROR(CheckExistsLocked());
  if (books_.state != RoundState::kAborted) return absl::OkStatus();
  return NotOpenLocked("accepts no updates");
}

absl::Status Round::NotOpenLocked(std::string_view what) const {
  return FailedPrecondition("ROUND_NOT_OPEN",
                            absl::StrCat(StateOf(books_), " and ", std::string(what)));
}

// --- Counting ---

absl::StatusOr<Receipt> Round::Commit(PreparedUpdate& update, Reservation& staging) {
  std::vector<uint64_t> nnz;
  for (const StagedUpdate& tensor : update.staged) nnz.push_back(tensor.entries.nnz);

  std::shared_lock gate(gate_);
  {
    std::lock_guard lock(mutex_);
    SPARSEAGG_RETURN_IF_ERROR(CheckNotGivenUpLocked());
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const PutResult put,
                             services_.store.Put(update.record, {update.headers, update.payload}));
  if (put.outcome == PutOutcome::kDuplicate) return AnswerResend(put.record);

  strand_.Post(
      [self = shared_from_this(), staged = std::move(update.staged), weight = update.record.weight,
       held = std::move(staging),
       growth = std::move(update.growth)]() mutable { self->Fold(std::move(staged), weight); });
  {
    std::lock_guard lock(mutex_);
    CountAcceptedLocked(update, nnz);
  }
  gate.unlock();
  NotifyChange();
  return MakeReceipt(put.record, /*duplicate=*/false);
}

void Round::CountAcceptedLocked(const PreparedUpdate& update, std::span<const uint64_t> nnz) {
  ++books_.contributors;
  books_.bytes_received += update.payload_bytes;
  for (size_t i = 0; i < nnz.size(); ++i) books_.tensors[i].nnz_received += nnz[i];
  ++books_.revision;
}

std::vector<ReductionReport> Round::EnterPlansLocked(std::vector<PlanReport> reports) {
  std::vector<ReductionReport> fresh;
  for (size_t i = 0; i < reports.size(); ++i) {
    TensorStatus& tensor = books_.tensors[i];
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

Receipt Round::AnswerResend(const UpdateRecord& record) {
  std::lock_guard lock(mutex_);
  ++duplicates_;
  return MakeReceipt(record, /*duplicate=*/true);
}

Receipt Round::MakeReceipt(const UpdateRecord& record, bool duplicate) const {
  return {.round = std::string(PublicName(name_)),
          .contributor = record.contributor,
          .update_id = record.update_id,
          .duplicate = duplicate,
          .sequence = record.sequence,
          .digest = record.digest,
          .durability = spec_.durability};
}

void Round::CountRefusal(const absl::Status& refusal) {
  if (RetryAfterMs(refusal) > 0) return;
  const std::string reason = ErrorReason(refusal);
  std::lock_guard lock(mutex_);
  ++rejected_[reason.empty() ? "UNKNOWN" : reason];
}

// --- Changing the state ---

absl::StatusOr<RoundSnapshot> Round::Seal() {
  std::unique_lock gate(gate_);
  RoundSnapshot sealed;
  {
    std::lock_guard lock(mutex_);
    SPARSEAGG_RETURN_IF_ERROR(CheckExistsLocked());
    const auto next = Next(books_.state, RoundEvent::kSeal);
    if (!next.has_value()) return NotOpenLocked("cannot be sealed");
    if (books_.state != RoundState::kOpen) return SnapshotLocked();  // a retry
  }
  sealed = Snapshot();
  sealed.seal_time = services_.options.now();
  SPARSEAGG_ASSIGN_OR_RETURN(std::vector<UpdateRecord> closed,
                             services_.store.CloseRound(name_, WriteDetails(sealed)));
  {
    std::lock_guard lock(mutex_);
    books_.state = *Next(books_.state, RoundEvent::kSeal);
    books_.seal_time = sealed.seal_time;
    ++books_.revision;
    sealed = SnapshotLocked();
  }
  // Behind every fold: no commit is under way, and all before have posted theirs.
  strand_.Post([self = shared_from_this(), closed = std::move(closed)]() mutable {
    self->Publish(std::move(closed));
  });
  gate.unlock();
  services_.options.observer->OnRoundState(sealed);
  NotifyChange();
  return sealed;
}

absl::StatusOr<RoundSnapshot> Round::Abort() {
  {
    std::unique_lock gate(gate_);
    {
      std::lock_guard lock(mutex_);
      SPARSEAGG_RETURN_IF_ERROR(CheckExistsLocked());
      const auto next = Next(books_.state, RoundEvent::kAbort);
      if (!next.has_value()) {
        return FailedPrecondition(
            "ROUND_NOT_ABORTABLE",
            absl::StrCat(StateOf(books_), " and cannot be aborted; delete it instead"));
      }
      if (*next == books_.state) return SnapshotLocked();  // a retry
    }
    SPARSEAGG_RETURN_IF_ERROR(services_.store.AbortRound(name_, WriteDetails(Snapshot())));
    MarkAborted(/*failure=*/"");
  }
  NotifyState();
  return Snapshot();
}

void Round::MarkAborted(std::string failure) {
  std::shared_ptr<TensorReducers>
      freed;  // after the lock; by the last user, if a fold is under way
  std::lock_guard lock(mutex_);
  books_.state = *Next(books_.state, RoundEvent::kAbort);
  books_.failure = std::move(failure);
  ++books_.revision;
  freed = std::move(reducers_);
}

absl::Status Round::Delete() {
  std::unique_lock gate(gate_);
  {
    std::lock_guard lock(mutex_);
    SPARSEAGG_RETURN_IF_ERROR(CheckExistsLocked());
    if (!IsFinal(books_.state)) {
      return FailedPrecondition(
          "ROUND_NOT_FINAL",
          absl::StrCat(StateOf(books_), " and cannot be deleted; abort it first"));
    }
  }
  SPARSEAGG_RETURN_IF_ERROR(services_.store.EraseRound(name_));
  RoundSnapshot retired;
  {
    std::lock_guard lock(mutex_);
    books_.state = Next(books_.state, RoundEvent::kRetire).value_or(books_.state);
    result_.reset();
    result_memory_ = {};
    deleted_ = true;
    retired = SnapshotLocked();
  }
  gate.unlock();
  retired.state = RoundState::kRetired;  // also what was aborted
  services_.options.observer->OnRoundState(retired);
  return absl::OkStatus();
}

void Round::NotifyChange() {
  if (!watchers_.empty()) watchers_.Notify(Snapshot());
}

void Round::NotifyState() {
  services_.options.observer->OnRoundState(Snapshot());
  NotifyChange();
}

// --- On the strand ---

std::shared_ptr<TensorReducers> Round::Reducers() const {
  std::lock_guard lock(mutex_);
  return reducers_;
}

void Round::Fold(StagedTensors update, float weight) {
  const std::shared_ptr<TensorReducers> reducers = Reducers();
  if (reducers == nullptr) return;
  const absl::Status folded = reducers->Accumulate(std::move(update), weight);
  if (!folded.ok()) return Fail(folded);
  // Asked for here, on the strand, and kept in the books for those who look from other threads.
  std::vector<PlanReport> reports = reducers->PlanReports();
  std::vector<ReductionReport> fresh;
  {
    std::lock_guard lock(mutex_);
    if (reducers_ == nullptr) return;  // aborted meanwhile
    fresh = EnterPlansLocked(std::move(reports));
  }
  Observe(fresh);
}

void Round::Publish(std::vector<UpdateRecord> closed) {
  const std::shared_ptr<TensorReducers> reducers = Reducers();
  if (reducers == nullptr) return;
  absl::StatusOr<PublishedResult> report = reducers->Report();
  if (!report.ok()) return Fail(report.status());
  std::vector<PlanReport> reports = reducers->PlanReports();
  auto result = std::make_shared<PublishedResult>(*std::move(report));
  Manifest manifest = DescribeResult(std::move(closed), result->tensors);
  manifest.infinite_values = result->manifest.infinite_values;
  manifest.publish_time = services_.options.now();
  RoundSnapshot published;
  std::vector<ReductionReport> fresh;
  {
    std::lock_guard lock(mutex_);
    manifest.rejected = rejected_;
    manifest.duplicates = duplicates_;
    for (size_t i = 0; i < result->tensors.size(); ++i) {
      books_.tensors[i].nnz_result = result->tensors[i].nnz();
    }
    fresh = EnterPlansLocked(std::move(reports));
    published = books_;
  }
  Observe(fresh);
  published.publish_time = manifest.publish_time;
  published.manifest = manifest;
  result->manifest = std::move(manifest);
  StoreResult(std::move(result), published);
}

void Round::StoreResult(std::shared_ptr<PublishedResult> result, const RoundSnapshot& published) {
  absl::Status stored;
  {
    std::shared_lock gate(gate_);  // the books are still this round's when they change
    std::unique_lock lock(mutex_);
    const auto next = Next(books_.state, RoundEvent::kPublish);
    if (!next.has_value()) return;  // aborted meanwhile
    lock.unlock();
    std::vector<uint64_t> sizes;
    stored = services_.store.PublishRound(name_, WriteDetails(published),
                                          ResultPieces(result->tensors, sizes));
    if (stored.ok()) {
      lock.lock();
      books_.state = *next;
      books_.publish_time = published.publish_time;
      books_.manifest = published.manifest;
      ++books_.revision;
      result_ = std::move(result);
      result_memory_ = reducers_->TakeMemory();
      reducers_.reset();
    }
  }
  if (RetryAfterMs(stored) > 0) {
    return TryLater(stored, [self = shared_from_this(), result = std::move(result), published] {
      self->StoreResult(result, published);
    });
  }
  if (!stored.ok()) return Fail(stored);
  NotifyState();
  ErasePayloads();
}

void Round::ErasePayloads() {
  absl::Status erased;
  {
    std::shared_lock gate(gate_);
    {
      std::lock_guard lock(mutex_);
      if (deleted_) return;
    }
    erased = services_.store.ErasePayloads(name_);
  }
  if (erased.ok()) return;
  if (RetryAfterMs(erased) > 0) {
    return TryLater(erased, [self = shared_from_this()] { self->ErasePayloads(); });
  }
  {
    std::lock_guard lock(mutex_);
    books_.failure = absl::StrCat("published, but raw updates could not be erased: ",
                                  std::string(erased.message()));
  }
  NotifyChange();
}

void Round::TryLater(const absl::Status& refusal, Task step) {
  services_.executor.PostAfter(std::chrono::milliseconds(RetryAfterMs(refusal)),
                               [self = shared_from_this(), step = std::move(step)]() mutable {
                                 self->strand_.Post(std::move(step));
                               });
}

void Round::Fail(const absl::Status& status) {
  {
    std::unique_lock gate(gate_);
    if (Reducers() == nullptr) return;  // aborted meanwhile
    RoundSnapshot failed = Snapshot();
    failed.failure = std::string(status.message());
    // The round ends even when its books cannot be changed now: DeleteRound() tries again.
    const absl::Status aborted = services_.store.AbortRound(name_, WriteDetails(failed));
    if (!aborted.ok()) absl::StrAppend(&failed.failure, "; and: ", std::string(aborted.message()));
    MarkAborted(std::move(failed.failure));
  }
  NotifyState();
}

}  // namespace sparseagg

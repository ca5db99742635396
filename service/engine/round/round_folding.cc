// The work of a Round on its strand: updates are folded; the result is computed, stored and
// published.
#include <chrono>
#include <shared_mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/recovery/stored.h"
#include "service/engine/recovery/verify.h"
#include "service/engine/result/held_result.h"
#include "service/engine/result/manifest.h"
#include "service/engine/round/round.h"

namespace sparseagg {
namespace {

// Small updates are folded together, when this many bytes are queued or after this delay, because
// waking a thread for each update took a fifth of a server's time.
constexpr uint64_t kFoldBytesMin = uint64_t{256} << 10;
constexpr std::chrono::milliseconds kFoldDelayMax{5};

// The interval of notifications about counted updates, because many clients may watch while many
// submit.
constexpr std::chrono::milliseconds kCountNotificationInterval{10};

constexpr std::chrono::minutes kStallReportInterval{1};

}  // namespace

std::shared_ptr<TensorReducers> Round::Reducers() const {
  std::lock_guard lock(mutex_);
  return reducers_;
}

Round::FoldTurn Round::EnqueueFoldLocked(UpdateToFold update) {
  for (const StagedUpdate& tensor : update.staged) fold_queue_bytes_ += tensor.bytes;
  fold_queue_.push_back(std::move(update));
  return folding_ ? FoldTurn::kNone : NextFoldTurnLocked();
}

Round::FoldTurn Round::NextFoldTurnLocked() {
  folding_ = fold_queue_bytes_ >= kFoldBytesMin;
  if (folding_) return FoldTurn::kNow;
  if (fold_queue_.empty() || std::exchange(fold_due_, true)) return FoldTurn::kNone;
  return FoldTurn::kSoon;
}

void Round::PostFold(FoldTurn turn) {
  if (turn == FoldTurn::kNow) {
    strand_.Post([self = shared_from_this()] { self->FoldQueued(); });
  } else if (turn == FoldTurn::kSoon) {
    services_.executor.PostAfter(kFoldDelayMax, [self = shared_from_this()] { self->FoldNow(); });
  }
}

void Round::FoldNow() {
  {
    std::lock_guard lock(mutex_);
    fold_due_ = false;
    if (folding_ || fold_queue_.empty()) return;
    folding_ = true;
  }
  PostFold(FoldTurn::kNow);
}

void Round::FoldQueued() {
  const absl::Status folded = FoldAll(DrainFoldQueue());
  if (!folded.ok()) {
    Fail(folded);
    DrainFoldQueue();  // frees the updates that are not folded
  }
  FoldTurn next = FoldTurn::kNone;
  {
    std::lock_guard lock(mutex_);
    next = NextFoldTurnLocked();
  }
  PostFold(next);
}

std::vector<UpdateToFold> Round::DrainFoldQueue() {
  std::lock_guard lock(mutex_);
  fold_queue_bytes_ = 0;
  return std::exchange(fold_queue_, {});
}

absl::Status Round::FoldAll(std::vector<UpdateToFold> updates) {
  const std::shared_ptr<TensorReducers> reducers = Reducers();
  if (reducers == nullptr) return absl::OkStatus();
  for (UpdateToFold& update : updates) {
    UpdateToFold done = std::move(update);  // its memory is released after the fold
    SPARSEAGG_RETURN_IF_ERROR(reducers->Accumulate(std::move(done.staged), done.weight));
  }
  // Read on the strand and copied into the snapshot, for other threads.
  std::vector<PlanReport> reports = reducers->PlanReports();
  std::vector<ReductionReport> fresh;
  {
    std::lock_guard lock(mutex_);
    if (reducers_ == nullptr) return absl::OkStatus();  // aborted concurrently
    fresh = UpdatePlansLocked(std::move(reports));
  }
  Observe(fresh);
  return absl::OkStatus();
}

std::vector<uint64_t> Round::EntriesReceived() const {
  std::lock_guard lock(mutex_);
  std::vector<uint64_t> entries;
  for (const TensorStatus& tensor : snapshot_.tensors) entries.push_back(tensor.nnz_received);
  return entries;
}

void Round::Publish(std::vector<UpdateRecord> closed) {
  // Their fold may be posted behind this task.
  const absl::Status folded = FoldAll(DrainFoldQueue());
  if (!folded.ok()) return Fail(folded);
  const std::shared_ptr<TensorReducers> reducers = Reducers();
  if (reducers == nullptr) return;
  const absl::Status complete = reducers->CheckFolded(closed.size(), EntriesReceived());
  if (!complete.ok()) return Fail(complete);
  absl::StatusOr<PublishedResult> report = reducers->Report();
  if (!report.ok()) return Fail(report.status());
  std::vector<PlanReport> reports = reducers->PlanReports();
  auto result = std::make_shared<PublishedResult>(*std::move(report));
  Manifest manifest = DescribeResult(std::move(closed), *result);
  manifest.infinite_values = result->manifest.infinite_values;
  manifest.publish_time = services_.options.now();
  RoundSnapshot published;
  std::vector<ReductionReport> fresh;
  {
    std::lock_guard lock(mutex_);
    manifest.rejected = rejected_;
    manifest.late = late_;
    manifest.duplicates = duplicates_;
    manifest.seal_reason = snapshot_.seal_reason;
    for (size_t i = 0; i < result->tensors.size(); ++i) {
      snapshot_.tensors[i].nnz_result = result->tensors[i].nnz();
    }
    fresh = UpdatePlansLocked(std::move(reports));
    published = snapshot_;
  }
  Observe(fresh);
  published.publish_time = manifest.publish_time;
  published.manifest = manifest;
  result->manifest = std::move(manifest);
  const absl::Status checked = SpotCheck(*result);
  if (!checked.ok()) return Fail(checked);
  StoreResult(std::move(result), published);
}

absl::Status Round::SpotCheck(const PublishedResult& result) {
  if (spec_.durability != Durability::kDurable ||
      !IsSampled(services_.options.verify_share, name_, create_time())) {
    return absl::OkStatus();
  }
  const auto start = std::chrono::steady_clock::now();
  const absl::Status outcome = VerifyUnpublished(
      services_.store, name_, result, services_.aggregation,
      [this] { return services_.draining.load() || state() != RoundState::kSealed; });
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  services_.options.observer->OnVerification({Snapshot(), outcome, taken.count()});
  return ErrorReason(outcome) == kResultMismatch ? outcome : absl::OkStatus();
}

void Round::StoreResult(std::shared_ptr<PublishedResult> result, const RoundSnapshot& published) {
  {
    std::shared_lock gate(gate_);  // an abort in progress comes first
    std::lock_guard lock(mutex_);
    if (!Next(snapshot_.state, RoundEvent::kPublish).has_value()) return;  // aborted concurrently
    storing_result_ = true;
  }
  // The gate is open while the result is stored, because that may take minutes and a submission
  // must not wait for it.
  std::vector<uint64_t> sizes;
  const absl::Status stored = services_.store.PublishRound(
      name_, WriteDetails(published), ResultPieces(result->tensors, sizes), spec_.keep_updates);
  {
    std::lock_guard lock(mutex_);
    storing_result_ = false;
    if (stored.ok()) {
      snapshot_.state = *Next(snapshot_.state, RoundEvent::kPublish);
      snapshot_.publish_time = published.publish_time;
      snapshot_.manifest = published.manifest;
      ++snapshot_.revision;
      result_ = HoldMemory(std::move(result), reducers_->TakeMemory(), services_.budgets);
      reducers_.reset();
    }
  }
  if (RetryAfterMs(stored) > 0) {
    return RetryLater(stored, [self = shared_from_this(), result = std::move(result), published] {
      self->StoreResult(result, published);
    });
  }
  if (!stored.ok()) return Fail(stored);
  NotifyState();
  if (!spec_.keep_updates) ScheduleErasure();
}

void Round::ScheduleErasure() {
  if (spec_.durability != Durability::kDurable) return;
  services_.eraser.Post([self = shared_from_this()] { self->ErasePayloads(); });
}

void Round::ErasePayloads() {
  {
    std::lock_guard lock(mutex_);
    if (deleted_) return;  // its data is erased, and the name may belong to another round
  }
  const absl::Status erased = services_.store.ErasePayloads(name_);
  if (erased.ok() || absl::IsCancelled(erased)) return;
  if (RetryAfterMs(erased) > 0) {
    ReportStall(erased);
    return services_.eraser.PostAfter(std::chrono::milliseconds(RetryAfterMs(erased)),
                                      [self = shared_from_this()] { self->ErasePayloads(); });
  }
  {
    std::lock_guard lock(mutex_);
    absl::StrAppend(&snapshot_.failure, snapshot_.failure.empty() ? "" : "; ",
                    "raw updates could not be erased: ", std::string(erased.message()));
    ++snapshot_.revision;  // otherwise watchers would take it for the state that they know
  }
  NotifyChange();
}

void Round::NotifyChange() { watchers_.Notify(Snapshot()); }

void Round::ScheduleCountNotification() {
  if (!watchers_.AnyForEveryChange()) return;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(count_notification_due_, true)) return;
  }
  services_.executor.PostAfter(kCountNotificationInterval, [self = shared_from_this()] {
    {
      std::lock_guard lock(self->mutex_);
      self->count_notification_due_ = false;
    }
    self->NotifyChange();
  });
}

void Round::NotifyState() {
  services_.options.observer->OnRoundState(Snapshot());
  NotifyChange();
}

void Round::ReportStall(const absl::Status& refusal) {
  const auto now = services_.options.steady_now();
  {
    std::lock_guard lock(mutex_);
    if (now < next_stall_report_) return;
    next_stall_report_ = now + kStallReportInterval;
  }
  services_.options.observer->OnRoundStalled(Snapshot(), refusal);
}

void Round::RetryLater(const absl::Status& refusal, Task step) {
  ReportStall(refusal);
  services_.executor.PostAfter(std::chrono::milliseconds(RetryAfterMs(refusal)),
                               [self = shared_from_this(), step = std::move(step)]() mutable {
                                 self->strand_.Post(std::move(step));
                               });
}

}  // namespace sparseagg

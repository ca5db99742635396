// The work of a Round on its strand, and what it tells its watchers.
#include <chrono>
#include <shared_mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/result/held_result.h"
#include "service/engine/round/round.h"

namespace sparseagg {
namespace {

// The interval of notifications about counted updates, because many clients may watch while many
// submit.
constexpr std::chrono::milliseconds kCountNotificationInterval{10};

}  // namespace

std::shared_ptr<TensorReducers> Round::Reducers() const {
  std::lock_guard lock(mutex_);
  return reducers_;
}

void Round::FoldBatch(std::vector<UpdateToFold> batch) {
  const absl::Status folded = FoldAll(std::move(batch));
  if (folded.ok()) return;
  Fail(folded);
  fold_queue_.Drain();  // frees the updates that are not folded
}

absl::Status Round::FoldAll(std::vector<UpdateToFold> updates) {
  const std::shared_ptr<TensorReducers> reducers = Reducers();
  if (reducers == nullptr) return absl::OkStatus();
  for (UpdateToFold& update : updates) {
    UpdateToFold done = std::move(update);  // its memory is released after the fold
    SPARSEAGG_RETURN_IF_ERROR(done.partial != nullptr
                                  ? reducers->Merge(std::move(*done.partial))
                                  : reducers->Accumulate(std::move(done.staged), done.weight));
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
  const absl::Status folded = FoldAll(fold_queue_.Drain());
  if (!folded.ok()) return Fail(folded);
  const std::shared_ptr<TensorReducers> reducers = Reducers();
  if (reducers == nullptr) return;
  const absl::Status complete = reducers->CheckFolded(closed.size(), EntriesReceived());
  if (!complete.ok()) return Fail(complete);
  {
    std::shared_lock gate(gate_);
    closed = covered_.Expand(std::move(closed));
  }
  publisher_.Publish(*reducers, std::move(closed));
}

RoundSnapshot Round::RecordResult(const PublishedResult& result, std::vector<PlanReport> reports,
                                  Manifest manifest) {
  RoundSnapshot published;
  std::vector<ReductionReport> fresh;
  {
    std::lock_guard lock(mutex_);
    manifest.rejected = rejected_;
    manifest.late = late_;
    manifest.duplicates = duplicates_;
    manifest.seal_reason = snapshot_.seal_reason;
    for (size_t i = 0; i < result.tensors.size(); ++i) {
      snapshot_.tensors[i].nnz_result =
          snapshot_.divided ? snapshot_.divided->nnz[i] : result.tensors[i].nnz();
    }
    fresh = UpdatePlansLocked(std::move(reports));
    published = snapshot_;
  }
  Observe(fresh);
  published.publish_time = manifest.publish_time;
  published.manifest = std::move(manifest);
  return published;
}

bool Round::BeginStoringResult() {
  std::shared_lock gate(gate_);  // an abort in progress comes first
  std::lock_guard lock(mutex_);
  if (!Next(snapshot_.state, RoundEvent::kPublish).has_value()) return false;
  storing_result_ = true;
  return true;
}

void Round::EndStoringResult(const absl::Status& stored, const RoundSnapshot& published,
                             const std::shared_ptr<PublishedResult>& result) {
  std::lock_guard lock(mutex_);
  storing_result_ = false;
  if (!stored.ok()) return;
  snapshot_.state = *Next(snapshot_.state, RoundEvent::kPublish);
  snapshot_.stall = absl::OkStatus();
  snapshot_.publish_time = published.publish_time;
  snapshot_.manifest = published.manifest;
  ++snapshot_.revision;
  result_ = HoldMemory(result, reducers_->TakeMemory(), services_.budgets);
  reducers_.reset();
}

bool Round::deleted() const {
  std::lock_guard lock(mutex_);
  return deleted_;
}

void Round::RecordFailedErasure(const absl::Status& why) {
  {
    std::lock_guard lock(mutex_);
    absl::StrAppend(&snapshot_.failure, snapshot_.failure.empty() ? "" : "; ",
                    "raw updates could not be erased: ", std::string(why.message()));
    ++snapshot_.revision;  // otherwise watchers would take it for the state that they know
  }
  NotifyChange();
}

void Round::RecordStall(const absl::Status& why) {
  {
    std::lock_guard lock(mutex_);
    const bool is_known = ErrorReason(snapshot_.stall) == ErrorReason(why);
    snapshot_.stall = why;
    if (is_known) return;
    ++snapshot_.revision;
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

}  // namespace sparseagg

#include "service/engine/engine.h"

#include <atomic>
#include <chrono>
#include <limits>
#include <shared_mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "service/engine/memory/admission.h"
#include "service/engine/memory/aggregation_bytes.h"
#include "service/engine/memory/tenant_budgets.h"
#include "service/engine/names.h"
#include "service/engine/partial/partial_body.h"
#include "service/engine/recovery/stored.h"
#include "service/engine/recovery/verify.h"
#include "service/engine/restore.h"
#include "service/engine/round/commit_gate.h"
#include "service/engine/round/counted_upload.h"
#include "service/engine/round/executor.h"
#include "service/engine/round/reduction.h"
#include "service/engine/round/round.h"
#include "service/engine/round/round_spec.h"
#include "service/engine/round/submission.h"
#include "service/engine/round_table.h"
#include "service/engine/upload/upload_table.h"
#include "service/store/ledger.h"

namespace sparseagg {
namespace {

constexpr uint64_t kDrainingRetryAfterMs = 1000;  // until another instance, or this one, serves

std::string RoundName(std::string_view tenant, std::string_view id) {
  return absl::StrCat(QualifiedName(tenant, kRoundPrefix), std::string(id));
}

class EngineImpl : public Engine {
 public:
  EngineImpl(EngineOptions options, Backend& backend, UpdateStore& store)
      : options_(std::move(options)),
        backend_(backend),
        store_(store),
        tenants_(std::make_shared<TenantTable>(
            options_.tenant_limits
                ? options_.tenant_limits
                : [this](std::string_view) { return DefaultTenantLimits(options_.limits); },
            options_.limits.staging_bytes_max, AggregationBytes(options_.limits, backend))),
        rounds_(options_.limits.rounds_max),
        uploads_(options_.limits),
        own_eraser_(options_.executor == nullptr ? std::make_unique<ThreadPool>(1) : nullptr),
        own_executor_(options_.executor == nullptr
                          ? std::make_unique<ThreadPool>(options_.worker_threads)
                          : nullptr),
        executor_(options_.executor == nullptr ? *own_executor_ : *options_.executor),
        eraser_(options_.executor == nullptr ? *own_eraser_ : *options_.executor) {
    ScheduleIdleCheck();
    ScheduleMaintenance();
  }
  ~EngineImpl() override { store_.StopErasing(); }

  absl::StatusOr<RoundSnapshot> CreateRound(const CreateRoundArgs& args) override;
  absl::StatusOr<RoundSnapshot> GetRound(std::string_view name) override {
    SPARSEAGG_ASSIGN_OR_RETURN(const auto round, rounds_.Find(name));
    return round->Snapshot();
  }
  std::vector<RoundSnapshot> ListRounds(std::string_view after, size_t limit) override {
    std::vector<RoundSnapshot> snapshots;
    for (const auto& round : rounds_.List(after, limit)) snapshots.push_back(round->Snapshot());
    return snapshots;
  }
  absl::StatusOr<RoundSnapshot> SealRound(std::string_view name) override {
    SPARSEAGG_ASSIGN_OR_RETURN(const auto round, rounds_.Find(name));
    return round->Seal();
  }
  absl::StatusOr<RoundSnapshot> AbortRound(std::string_view name) override {
    return FailRound(name, /*failure=*/"");
  }
  absl::Status DeleteRound(std::string_view name) override;
  absl::StatusOr<RoundSnapshot> FailRound(std::string_view name,
                                          const std::string& failure) override {
    SPARSEAGG_ASSIGN_OR_RETURN(const auto round, rounds_.Find(name));
    return round->Abort(failure);
  }
  absl::Status WithdrawRound(std::string_view name) override {
    SPARSEAGG_ASSIGN_OR_RETURN(const auto round, rounds_.Find(name));
    SPARSEAGG_RETURN_IF_ERROR(round->Abort().status());
    return Erase(*round, Round::NameAfter::kFree);
  }
  absl::StatusOr<RoundSnapshot> SealDivided(std::string_view name,
                                            const DividedResult& divided) override {
    SPARSEAGG_ASSIGN_OR_RETURN(const auto round, rounds_.Find(name));
    return round->SealDivided(divided);
  }

  absl::StatusOr<WatchHandle> Watch(std::string_view name, WatchScope what,
                                    OnChange on_change) override {
    SPARSEAGG_ASSIGN_OR_RETURN(const auto round, rounds_.Find(name));
    return round->Watch(what, std::move(on_change));
  }

  absl::StatusOr<Receipt> Submit(UpdateHeader header,
                                 const std::vector<EncodedTensor>& tensors) override;
  bool WaitsForDisk(std::string_view name) override {
    const auto round = rounds_.Find(name);
    return round.ok() && (*round)->spec().durability == Durability::kDurable;
  }
  absl::StatusOr<std::shared_ptr<Upload>> BeginUpload(const UpdateHeader& header,
                                                      std::vector<EncodedHeader> tensors) override;

  absl::StatusOr<std::shared_ptr<const PublishedResult>> Result(std::string_view name) override {
    SPARSEAGG_ASSIGN_OR_RETURN(const auto round, rounds_.Find(name));
    return round->Result();
  }

  absl::StatusOr<Verification> VerifyRound(std::string_view name,
                                           std::function<bool()> cancelled) override;
  absl::StatusOr<std::unique_ptr<StatelessReduction>> NewReduction(
      const RoundSpec& spec, std::string_view tenant) override;

  const BackendInfo& backend_info() const override { return backend_.info(); }
  const Limits& limits() const override { return options_.limits; }
  EngineStats Stats() const override;

  absl::Status Recover() override;
  bool Drain(std::chrono::steady_clock::time_point deadline) override;

 private:
  absl::Status CheckNotDraining() const;
  // Deletes a round in a final state, and remembers its name or frees it at once.
  absl::Status Erase(Round& round, Round::NameAfter name_after);
  RoundServices ServicesFor(TenantBudgets& tenant) {
    return {options_,           store_,    executor_, eraser_, uploads_, tenants_,
            tenant.aggregation, draining_, start_id_};
  }
  std::string NewRoundId(const CreateRoundArgs& args);
  absl::StatusOr<Receipt> SubmitTo(Round& round, const UpdateHeader& header, const UpdateBody& body,
                                   Reservation& staging);
  absl::StatusOr<std::shared_ptr<Upload>> BeginUploadTo(const std::shared_ptr<Round>& round,
                                                        const UpdateHeader& header,
                                                        std::vector<EncodedHeader> tensors);
  // Schedules the periodic check that drops idle uploads.
  void ScheduleIdleCheck();
  // The same on the eraser: for rounds after their retention, leftovers on the disk, and old names.
  void ScheduleMaintenance();
  void DeleteExpiredRounds();
  void ForgetExpiredNames();

  const EngineOptions options_;
  Backend& backend_;
  UpdateStore& store_;
  const std::shared_ptr<TenantTable> tenants_;  // shared with results, which may outlive the engine
  RoundTable rounds_;
  UploadTable uploads_;
  CommitGate drain_gate_;  // calls that Drain() waits for hold it shared
  std::atomic<bool> draining_ = false;
  const std::string start_id_ = NewStoreId();
  // Declared last: their tasks use the members above, and the executor's tasks post to the eraser.
  const std::unique_ptr<ThreadPool> own_eraser_;
  const std::unique_ptr<ThreadPool> own_executor_;
  Executor& executor_;
  Executor& eraser_;
};

// --- Rounds ---

absl::StatusOr<RoundSnapshot> EngineImpl::CreateRound(const CreateRoundArgs& args) {
  std::shared_lock working(drain_gate_);
  SPARSEAGG_RETURN_IF_ERROR(CheckNotDraining());
  SPARSEAGG_RETURN_IF_ERROR(ValidateTenant(args.tenant));
  if (!args.round_id.empty()) SPARSEAGG_RETURN_IF_ERROR(ValidateRoundId(args.round_id));
  SPARSEAGG_RETURN_IF_ERROR(ValidateRequestId(args.request_id));
  TenantBudgets& tenant = tenants_->Of(args.tenant);
  CreateRoundArgs normal = args;
  normal.tenant_rounds_max = tenant.limits.rounds_max;
  SPARSEAGG_ASSIGN_OR_RETURN(normal.spec, NormaliseRoundSpec(args.spec, options_, store_));
  SPARSEAGG_ASSIGN_OR_RETURN(std::shared_ptr<Round> round, rounds_.FindRequest(normal));
  if (round != nullptr) return round->Snapshot();

  const Moment now = {options_.now(), options_.steady_now()};
  SPARSEAGG_ASSIGN_OR_RETURN(const auto time_open,
                             TimeOpen(normal.spec.policy, options_.limits, now.wall));
  const RoundClock clock(time_open, now);
  SPARSEAGG_ASSIGN_OR_RETURN(
      auto reducers, TensorReducers::Make(normal.spec, backend_, tenant.aggregation,
                                          {.result_nnz_max = options_.limits.result_nnz_max}));
  const std::string id = args.round_id.empty() ? NewRoundId(normal) : args.round_id;
  round = std::make_shared<Round>(RoundName(args.tenant, id), std::move(reducers), clock,
                                  ServicesFor(tenant));
  const auto open_in_store = [&] {
    return store_.OpenRound({.name = round->name(),
                             .durability = normal.spec.durability,
                             .description = WriteDescription({normal, round->create_time()}),
                             .details = WriteAnchor(clock.anchor())});
  };
  SPARSEAGG_ASSIGN_OR_RETURN(const auto entered, rounds_.Insert(normal, round, open_in_store));
  RoundSnapshot snapshot = entered->Snapshot();
  if (entered == round) {
    options_.observer->OnRoundState(snapshot);
    round->Start();
  }
  return snapshot;
}

std::string EngineImpl::NewRoundId(const CreateRoundArgs& args) {
  const std::string& store = store_.Epoch().store_id;  // other roots may have the same leaves
  const std::string root = args.spec.tree.is_root() ? "-" + store.substr(0, 8) : "";
  while (true) {
    const std::string time =
        absl::FormatTime("%Y%m%d-%H%M%S", absl::FromChrono(options_.now()), absl::UTCTimeZone());
    const auto id = absl::StrCat("r", time, "-", ++tenants_->Of(args.tenant).rounds_named, root);
    if (!rounds_.Contains(RoundName(args.tenant, id))) return id;
  }
}

absl::Status EngineImpl::DeleteRound(std::string_view name) {
  const auto found = rounds_.Find(name);
  if (ErrorReason(found.status()) == "ROUND_EXPIRED") return absl::OkStatus();  // a retry
  SPARSEAGG_RETURN_IF_ERROR(found.status());
  const absl::Status deleted = Erase(**found, Round::NameAfter::kRemembered);
  if (absl::IsNotFound(deleted) && ErrorReason(rounds_.Find(name).status()) == "ROUND_EXPIRED") {
    return absl::OkStatus();  // another call was faster
  }
  return deleted;
}

absl::Status EngineImpl::Erase(Round& round, Round::NameAfter name_after) {
  SPARSEAGG_RETURN_IF_ERROR(
      round.Delete(name_after, [&](const std::optional<Tombstone>& tombstone) {
        if (tombstone.has_value()) rounds_.Remember(*tombstone);
        rounds_.Erase(round);
      }));
  round.NotifyDeleted();
  return absl::OkStatus();
}

void EngineImpl::ScheduleIdleCheck() {
  executor_.PostAfter(options_.check_interval, [this] {
    uploads_.DropIdle(options_.steady_now());
    ScheduleIdleCheck();
  });
}

void EngineImpl::ScheduleMaintenance() {
  eraser_.PostAfter(options_.check_interval, [this] {
    if (options_.limits.result_retention_ms > 0) DeleteExpiredRounds();
    ForgetExpiredNames();
    const auto idle = std::chrono::milliseconds(options_.limits.upload_idle_ms);
    store_.DropPartialsUnusedSince(options_.steady_now() - idle);
    store_.EraseLeftovers().IgnoreError();
    ScheduleMaintenance();
  });
}

void EngineImpl::ForgetExpiredNames() {
  const auto horizon = std::chrono::milliseconds(options_.limits.retry_horizon_ms);
  const auto erased_before = options_.now() - horizon;
  // A name that the store fails to forget is forgotten there after the next start.
  if (rounds_.ForgetErasedBefore(erased_before)) {
    store_.ForgetTombstones(erased_before).IgnoreError();
  }
}

void EngineImpl::DeleteExpiredRounds() {
  const auto retention = std::chrono::milliseconds(options_.limits.result_retention_ms);
  for (const auto& round : rounds_.List("", std::numeric_limits<size_t>::max())) {
    const RoundSnapshot snapshot = round->Snapshot();
    const auto since =
        snapshot.abort_time.value_or(snapshot.publish_time.value_or(snapshot.create_time));
    // A failed deletion is retried at the next maintenance.
    if (IsFinal(snapshot.state) && options_.now() - since >= retention) {
      DeleteRound(round->name()).IgnoreError();
    }
  }
}

// --- Updates ---

absl::StatusOr<Receipt> EngineImpl::Submit(UpdateHeader header,
                                           const std::vector<EncodedTensor>& tensors) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto round, rounds_.Find(header.round));
  Reservation staging;
  return SubmitTo(*round, header, {.tensors = tensors}, staging);
}

absl::StatusOr<Receipt> EngineImpl::SubmitTo(Round& round, const UpdateHeader& header,
                                             const UpdateBody& body, Reservation& staging) {
  std::shared_lock working(drain_gate_);
  SPARSEAGG_RETURN_IF_ERROR(CheckNotDraining());
  const auto start = std::chrono::steady_clock::now();
  Admission& admission = tenants_->Of(TenantOf(round.name())).staging;
  auto receipt = SubmitUpdate(round, header, body, options_.limits, admission, staging);
  if (!receipt.ok()) round.CountRefusal(receipt.status());
  options_.observer->OnSubmission(
      ReportOf(header, body, receipt, std::chrono::steady_clock::now() - start));
  return receipt;
}

absl::StatusOr<std::shared_ptr<Upload>> EngineImpl::BeginUpload(
    const UpdateHeader& header, std::vector<EncodedHeader> tensors) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto round, rounds_.Find(header.round));
  std::shared_lock working(drain_gate_);
  SPARSEAGG_RETURN_IF_ERROR(CheckNotDraining());
  auto upload = BeginUploadTo(round, header, tensors);
  // The upload ended after it was found. Now the update is counted, or the upload starts anew.
  while (ErrorReason(upload.status()) == "UPLOAD_ENDED") {
    upload = BeginUploadTo(round, header, tensors);
  }
  if (!upload.ok()) {
    round->CountRefusal(upload.status());
    options_.observer->OnSubmission({.header = header, .status = upload.status()});
  }
  return upload;
}

absl::StatusOr<std::shared_ptr<Upload>> EngineImpl::BeginUploadTo(
    const std::shared_ptr<Round>& round, const UpdateHeader& header,
    std::vector<EncodedHeader> tensors) {
  SPARSEAGG_RETURN_IF_ERROR(CheckUpdateHeader(*round, header, IsPartialBody(tensors)));
  SPARSEAGG_ASSIGN_OR_RETURN(const auto counted, round->Counted(header.contributor));
  std::shared_ptr<const TensorReducers> reducers;
  if (!counted.has_value()) {
    SPARSEAGG_ASSIGN_OR_RETURN(reducers, round->OpenReducers());
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const UpdateLayout layout,
                             MakeBodyLayout(round->spec(), tensors, options_.limits));
  if (counted.has_value()) return ResumeCounted(round, *counted, header, layout.payload_bytes);

  UploadArgs args;
  args.header = header;
  args.round = round.get();
  args.tensors = std::move(tensors);
  args.total_bytes = layout.payload_bytes;
  args.staged_bytes = layout.staged_bytes;
  args.now = options_.steady_now;
  args.commit = [this, round](const UpdateHeader& h, const UpdateBody& body, Reservation& staging) {
    return SubmitTo(*round, h, body, staging);
  };
  // A durable round stores the payload undecoded.
  if (round->spec().durability == Durability::kMemory && !IsPartialBody(args.tensors)) {
    args.stage = [reducers, layout,
                  weight = header.weight](std::span<const EncodedHeader> headers) {
      return ArrivingUpdate::Make(reducers, headers, layout, weight);
    };
  }
  UploadTable::OpenUploadPayload take_partial = [] { return nullptr; };
  if (round->spec().durability == Durability::kDurable) {
    take_partial = [&, description = WriteUpload(header.weight, args.tensors)] {
      return store_.OpenUploadPayload({.round = round->name(),
                                       .contributor = header.contributor,
                                       .update_id = header.update_id,
                                       .description = description,
                                       .total_bytes = layout.payload_bytes});
    };
  }
  SPARSEAGG_ASSIGN_OR_RETURN(
      std::shared_ptr<Upload> upload,
      uploads_.BeginOrResume(std::move(args), tenants_->Of(TenantOf(round->name())), take_partial));
  // If the round has ended concurrently, it dropped its uploads before this one was added.
  const absl::Status open = round->OpenReducers().status();
  if (!open.ok()) {
    uploads_.DropRound(round->name(), round.get(), open);
    if (round->spec().durability == Durability::kDurable) store_.DropUploadPayloads(round->name());
    return open;
  }
  return upload;
}

// --- Reductions, statistics, verification, recovery, drain ---

absl::StatusOr<std::unique_ptr<StatelessReduction>> EngineImpl::NewReduction(
    const RoundSpec& spec, std::string_view tenant) {
  SPARSEAGG_RETURN_IF_ERROR(CheckNotDraining());
  TenantBudgets& budgets = tenants_->Of(tenant);
  return MakeReduction(spec, {.options = options_,
                              .backend = backend_,
                              .store = store_,
                              .staging = budgets.staging,
                              .aggregation = budgets.aggregation,
                              .budgets = tenants_});
}

EngineStats EngineImpl::Stats() const {
  EngineStats stats;
  for (const auto& round : rounds_.List("", std::numeric_limits<size_t>::max())) {
    ++stats.rounds[round->state()];
  }
  stats.staged_bytes = tenants_->staging().bytes_in_use();
  stats.aggregation_bytes = tenants_->aggregation().bytes_in_use();
  stats.aggregation_bytes_max = AggregationBytes(options_.limits, backend_);
  stats.upload_disk_bytes = uploads_.disk_bytes();
  stats.open_uploads = uploads_.size();
  stats.waiting_tasks = executor_.waiting();
  stats.devices = backend_.device_stats();
  return stats;
}

absl::StatusOr<Verification> EngineImpl::VerifyRound(std::string_view name,
                                                     std::function<bool()> cancelled) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto round, rounds_.Find(name));
  SPARSEAGG_ASSIGN_OR_RETURN(const auto result, round->Result());
  Admission& aggregation = tenants_->Of(TenantOf(round->name())).aggregation;
  return VerifyPublished(store_, round->name(), *result, aggregation,
                         {aggregation.bytes_free() / 2, std::move(cancelled)});
}

absl::Status EngineImpl::Recover() {
  for (const RoundRecord& record : store_.Rounds()) {
    TenantBudgets& tenant = tenants_->Of(TenantOf(record.name));
    const RoundRestorer restorer(options_, backend_, store_, tenant.aggregation);
    SPARSEAGG_ASSIGN_OR_RETURN(auto restored, restorer.Restore(record));
    restored.args.tenant = std::string(TenantOf(record.name));
    const auto round =
        std::make_shared<Round>(record.name, std::move(restored.round), ServicesFor(tenant));
    const auto already_open = [] { return absl::OkStatus(); };
    const auto entered = rounds_.Insert(restored.args, round, already_open);
    if (!entered.ok()) return RestoreError(record, entered.status());
    SPARSEAGG_RETURN_IF_ERROR(round->Resume());
  }
  // Tombstones come after the rounds, because a name that was used again belongs to its new round.
  for (const Tombstone& tombstone : store_.Tombstones()) rounds_.Remember(tombstone);
  return absl::OkStatus();
}

absl::Status EngineImpl::CheckNotDraining() const {
  if (!draining_) return absl::OkStatus();
  return WithRetryAfter(MakeError(absl::StatusCode::kUnavailable, "SERVER_DRAINING",
                                  "the server is shutting down; try again"),
                        kDrainingRetryAfterMs);
}

bool EngineImpl::Drain(std::chrono::steady_clock::time_point deadline) {
  draining_ = true;
  {
    const std::unique_lock nobody_works(drain_gate_, deadline);
    if (!nobody_works.owns_lock()) return false;
  }
  for (const auto& round : rounds_.List("", rounds_.size())) round->FoldNow();
  return executor_.WaitUntilIdle(deadline) && eraser_.WaitUntilIdle(deadline);
}

}  // namespace

std::unique_ptr<Engine> MakeEngine(EngineOptions options, Backend& backend, UpdateStore& store) {
  return std::make_unique<EngineImpl>(std::move(options), backend, store);
}

}  // namespace sparseagg

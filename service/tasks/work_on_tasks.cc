// The calls of workers.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/limits.h"
#include "service/engine/names.h"
#include "service/tasks/task_names.h"
#include "service/tasks/tasks.h"

namespace sparseagg {
namespace {

absl::Status Mismatch(std::string_view what, std::string_view theirs, std::string_view ours) {
  return MakeError(absl::StatusCode::kInvalidArgument, "RECEIPT_MISMATCH",
                   absl::StrCat("the receipt is of ", std::string(what), " ", Quoted(theirs),
                                ", but the task is of ", Quoted(ours)));
}

// Returns whether the worker may use this lease. The token of another lease is refused by the
// table, also if another client sends it.
bool IsTheirs(const TaskId& id, uint64_t token, const TaskViewer& viewer) {
  return id.record().token != token || viewer.Sees(id.record().worker);
}

}  // namespace

absl::StatusOr<AcquiredTasks> Tasks::Acquire(const std::string& tenant, const AcquireArgs& args) {
  SPARSEAGG_RETURN_IF_ERROR(CheckAcquire(args));
  AcquiredTasks acquired;
  SPARSEAGG_RETURN_IF_ERROR(Run([&](Step& step) {
    acquired = {};
    const TaskTable::Acquired taken = table_.Acquire(tenant, args, step.now);
    for (const TaskId& id : taken.tasks) acquired.tasks.push_back(table_.Snapshot(id, step.now));
    step.adds_work = taken.is_new;
    step.holds_unstored = taken.tasks.empty();
    if (taken.tasks.empty()) {
      acquired.retry = pacers_.Next(tenant, args.worker, step.now.steady);
    }
    return absl::OkStatus();
  }));
  return acquired;
}

absl::StatusOr<std::vector<absl::StatusOr<TaskLease>>> Tasks::Renew(
    const std::string& tenant, const TaskViewer& viewer, std::span<const TaskLeaseKey> leases) {
  SPARSEAGG_RETURN_IF_ERROR(CheckNumber("leases", leases.size(), kLeasesPerRenewMax));
  std::vector<absl::StatusOr<TaskLease>> renewed;
  const auto renew = [&](const TaskLeaseKey& lease,
                         const TaskTime& now) -> absl::StatusOr<TaskLease> {
    SPARSEAGG_ASSIGN_OR_RETURN(const TaskId id, table_.FindTask(tenant, lease.task));
    if (!IsTheirs(id, lease.token, viewer)) return TaskNotFound(lease.task);
    SPARSEAGG_RETURN_IF_ERROR(table_.Renew(id, lease.token, now));
    return *table_.Snapshot(id, now).lease;
  };
  SPARSEAGG_RETURN_IF_ERROR(Run([&](Step& step) {
    renewed.clear();
    for (const TaskLeaseKey& lease : leases) renewed.push_back(renew(lease, step.now));
    return absl::OkStatus();
  }));
  return renewed;
}

absl::Status Tasks::CheckReceipt(const TaskId& id, const Receipt& receipt) const {
  const std::string& round = id.group->info().round;
  const std::string contributor = id.contributor();
  if (receipt.round != PublicName(round)) {
    return Mismatch("round", receipt.round, PublicName(round));
  }
  if (receipt.contributor != contributor) {
    return Mismatch("contributor", receipt.contributor, contributor);
  }
  const std::optional<UpdateRecord> counted = store_.Find(round, contributor);
  if (!counted.has_value()) return absl::OkStatus();  // the table refuses it
  if (receipt.update_id != counted->update_id) {
    return Mismatch("update", receipt.update_id, counted->update_id);
  }
  if (receipt.digest == counted->digest) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, "RECEIPT_MISMATCH",
                   absl::StrCat("the receipt of update ", Quoted(receipt.update_id),
                                " has another digest than the update that was counted"));
}

absl::StatusOr<TaskSnapshot> Tasks::Complete(const std::string& tenant, const TaskViewer& viewer,
                                             const TaskLeaseKey& lease, const Receipt& receipt) {
  TaskSnapshot snapshot;
  SPARSEAGG_RETURN_IF_ERROR(Run([&](Step& step) -> absl::Status {
    SPARSEAGG_ASSIGN_OR_RETURN(const TaskId id, table_.FindTask(tenant, lease.task));
    if (!IsTheirs(id, lease.token, viewer)) return TaskNotFound(lease.task);
    const bool holds = id.record().state == TaskState::kLeased && id.record().token == lease.token;
    if (holds) SPARSEAGG_RETURN_IF_ERROR(CheckReceipt(id, receipt));
    SPARSEAGG_RETURN_IF_ERROR(table_.Complete(id, lease.token, step.now));
    snapshot = table_.Snapshot(id, step.now);
    snapshot.payload = nullptr;
    return absl::OkStatus();
  }));
  return snapshot;
}

absl::StatusOr<TaskSnapshot> Tasks::Fail(const std::string& tenant, const TaskViewer& viewer,
                                         const TaskLeaseKey& lease, const FailArgs& args) {
  if (args.reason.size() > kTaskFailureBytesMax) {
    return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_TASK_REQUEST",
                     absl::StrCat("the reason has ", args.reason.size(), " bytes, at most ",
                                  kTaskFailureBytesMax));
  }
  TaskSnapshot snapshot;
  SPARSEAGG_RETURN_IF_ERROR(Run([&](Step& step) -> absl::Status {
    SPARSEAGG_ASSIGN_OR_RETURN(const TaskId id, table_.FindTask(tenant, lease.task));
    if (!IsTheirs(id, lease.token, viewer)) return TaskNotFound(lease.task);
    SPARSEAGG_RETURN_IF_ERROR(table_.Fail(id, lease.token, args, step.now));
    snapshot = table_.Snapshot(id, step.now);
    snapshot.payload = nullptr;
    return absl::OkStatus();
  }));
  return snapshot;
}

}  // namespace sparseagg

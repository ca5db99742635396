// Tasks::Create().
#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/limits.h"
#include "service/engine/names.h"
#include "service/store/checksums/digest.h"
#include "service/tasks/task_names.h"
#include "service/tasks/tasks.h"

namespace sparseagg {
namespace {

// The time after which another round may have ended.
constexpr uint64_t kFullRetryAfterMs = 10'000;

absl::Status Invalid(const TaskGroupSpec& spec, std::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_TASK_GROUP",
                   absl::StrCat("task group for ", Quoted(spec.round), " in pool ",
                                Quoted(spec.pool), ": ", std::string(what)));
}

absl::Status Full(std::string_view reason, std::string_view message) {
  return WithRetryAfter(MakeError(absl::StatusCode::kResourceExhausted, reason, message),
                        kFullRetryAfterMs);
}

absl::Status RoundNotOpen(const TaskGroupSpec& spec, RoundState state) {
  const std::string name(RoundStateName(state));
  return WithMetadata(MakeError(absl::StatusCode::kFailedPrecondition, "ROUND_NOT_OPEN",
                                absl::StrCat("round ", Quoted(spec.round), " is ", name,
                                             ", so it gets no tasks; create them for an open one")),
                      "state", name);
}

absl::Status RoundHasLeaves(const TaskGroupSpec& spec) {
  return MakeError(absl::StatusCode::kFailedPrecondition, "TREE_TASKS",
                   absl::StrCat("round ", Quoted(spec.round),
                                " has leaves, which count its updates, so that no task would be "
                                "completed here; create its tasks at the leaves"));
}

// Two requests of one id are the same if this is.
std::string DigestOf(const CreateTasksArgs& args) {
  Sha256 digest;
  digest.U64(args.groups.size());
  for (const TaskGroupSpec& group : args.groups) {
    digest.String(group.group_id).String(group.pool).String(group.round).String(group.payload);
    digest.U32(group.count.value_or(0)).U32(group.percent_of_goal.value_or(0));
    digest.U64(group.contributors.size());
    for (const std::string& contributor : group.contributors) digest.String(contributor);
    digest.U64(group.required_capabilities.size());
    for (const std::string& capability : group.required_capabilities) digest.String(capability);
    digest.U64(static_cast<uint64_t>(group.lease.count())).U32(group.attempts_max);
    digest.U64(
        static_cast<uint64_t>(group.open_for.value_or(std::chrono::milliseconds(0)).count()));
    const auto until = group.open_until.value_or(std::chrono::system_clock::time_point());
    digest.U64(static_cast<uint64_t>(until.time_since_epoch().count()));
  }
  return absl::BytesToHexString(digest.Finish());
}

absl::StatusOr<uint32_t> CountOf(const TaskGroupSpec& spec, const RoundOfTasks& round) {
  if (spec.count.has_value()) return *spec.count;
  if (!spec.percent_of_goal.has_value()) return static_cast<uint32_t>(spec.contributors.size());
  if (round.goal_contributors == 0) {
    return Invalid(spec, "percent_of_goal needs a round whose policy has goal_contributors");
  }
  // The goal is below 2^50 here, so that the product does not overflow.
  const uint64_t goal = std::min<uint64_t>(round.goal_contributors, uint64_t{1} << 50);
  const uint64_t count = (goal * *spec.percent_of_goal + 99) / 100;
  if (count > kTasksPerGroupMax) {
    return Invalid(spec, absl::StrCat(*spec.percent_of_goal, " % of the goal are ", count,
                                      " tasks, at most ", kTasksPerGroupMax));
  }
  return static_cast<uint32_t>(count);
}

}  // namespace

absl::StatusOr<std::vector<TaskGroupSnapshot>> Tasks::Create(const CreateTasksArgs& args) {
  SPARSEAGG_RETURN_IF_ERROR(CheckCreateTasks(args));
  std::vector<absl::StatusOr<RoundOfTasks>> rounds;
  for (const TaskGroupSpec& spec : args.groups) {
    rounds.push_back(find_round_(QualifiedName(args.tenant, spec.round)));
  }
  std::vector<TaskGroupSnapshot> created;
  bool is_new = false;
  SPARSEAGG_RETURN_IF_ERROR(Run([&](Step& step) -> absl::Status {
    SPARSEAGG_ASSIGN_OR_RETURN(const auto groups, AddGroups(args, rounds, step));
    is_new = step.adds_work;
    created.clear();
    for (const TaskGroup* group : groups) created.push_back(group->Snapshot());
    return absl::OkStatus();
  }));
  if (!is_new) return created;
  // A round that closed, or was deleted, before its tasks were there did not end them.
  for (size_t i = 0; i < created.size(); ++i) {
    CheckRound(QualifiedName(args.tenant, created[i].round), rounds[i]->created);
    options_.observer->OnCreated(created[i]);
  }
  return created;
}

absl::Status Tasks::CheckRequest(const CreateTasksArgs& args, const std::string& digest,
                                 const std::vector<TaskGroup*>& groups) const {
  const std::string* digest_before = groups.empty()
                                         ? table_.ForgottenRequest(args.tenant, args.request_id)
                                         : &groups.front()->info().request_digest;
  if (digest_before == nullptr) return absl::OkStatus();
  if (*digest_before != digest) {
    return MakeError(absl::StatusCode::kInvalidArgument, "REQUEST_ID_CONFLICT",
                     absl::StrCat("request id ", Quoted(args.request_id),
                                  " created other tasks; use a new id for new ones"));
  }
  if (groups.size() == args.groups.size()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kNotFound, "TASK_GROUP_NOT_FOUND",
                   absl::StrCat("request id ", Quoted(args.request_id),
                                " created these tasks before, and since then ",
                                args.groups.size() - groups.size(),
                                " of the groups were forgotten with their rounds; use a new id for "
                                "new ones"));
}

absl::StatusOr<std::vector<TaskGroup*>> Tasks::AddGroups(
    const CreateTasksArgs& args, const std::vector<absl::StatusOr<RoundOfTasks>>& rounds,
    Step& step) {
  std::vector<TaskGroup*> groups = table_.GroupsOfRequest(args.tenant, args.request_id);
  const std::string digest = args.request_id.empty() ? "" : DigestOf(args);
  SPARSEAGG_RETURN_IF_ERROR(CheckRequest(args, digest, groups));
  if (!groups.empty()) return groups;  // a retry
  std::vector<TaskGroupInfo> infos;
  for (size_t i = 0; i < args.groups.size(); ++i) {
    if (absl::IsUnavailable(rounds[i].status())) {
      return RoundNotOpen(args.groups[i], RoundState::kAborted);
    }
    SPARSEAGG_RETURN_IF_ERROR(rounds[i].status());
    if (rounds[i]->state != RoundState::kOpen) {
      return RoundNotOpen(args.groups[i], rounds[i]->state);
    }
    if (rounds[i]->has_leaves) return RoundHasLeaves(args.groups[i]);
    SPARSEAGG_ASSIGN_OR_RETURN(TaskGroupInfo info,
                               InfoOf(args, args.groups[i], *rounds[i], step.now));
    info.order = table_.next_order() + i;
    info.request_digest = digest;
    infos.push_back(std::move(info));
  }
  SPARSEAGG_RETURN_IF_ERROR(CheckRoom(args.tenant, infos));
  for (TaskGroupInfo& info : infos) groups.push_back(&table_.Add(std::move(info), step.now));
  step.adds_work = true;
  return groups;
}

std::string Tasks::NewGroupId(const std::string& tenant) {
  while (true) {
    const std::string id = absl::StrCat("g", absl::Hex(random_(), absl::kZeroPad16));
    const std::string name = absl::StrCat(std::string(kTaskGroupPrefix), id);
    if (table_.FindGroup(QualifiedName(tenant, name)) == nullptr) return id;
  }
}

absl::StatusOr<TaskGroupInfo> Tasks::InfoOf(const CreateTasksArgs& args, const TaskGroupSpec& spec,
                                            const RoundOfTasks& round, const TaskTime& now) {
  const std::string id = spec.group_id.empty() ? NewGroupId(args.tenant) : spec.group_id;
  TaskGroupInfo info{
      .name = QualifiedName(args.tenant, absl::StrCat(std::string(kTaskGroupPrefix), id)),
      .pool = spec.pool,
      .round = QualifiedName(args.tenant, spec.round),
      .round_created = round.created,
      .durability = round.durability,
      .contributors = spec.contributors,
      .payload = std::make_shared<const std::string>(spec.payload),
      .required_capabilities = spec.required_capabilities,
      .lease = spec.lease,
      .attempts_max = spec.attempts_max,
      .create_time = std::chrono::floor<std::chrono::milliseconds>(now.wall),
      .request_id = args.request_id};
  if (table_.FindGroup(info.name) != nullptr) {
    return MakeError(absl::StatusCode::kAlreadyExists, "TASK_GROUP_EXISTS",
                     absl::StrCat("there is a task group ", Quoted(PublicName(info.name)),
                                  "; choose another id"));
  }
  SPARSEAGG_ASSIGN_OR_RETURN(info.count, CountOf(spec, round));
  if (spec.open_for.has_value()) info.deadline = info.create_time + *spec.open_for;
  if (spec.open_until.has_value()) {
    info.deadline = std::chrono::ceil<std::chrono::milliseconds>(*spec.open_until);
  }
  if (info.deadline.has_value() && *info.deadline <= now.wall) {
    return Invalid(spec, "open_until must be in the future");
  }
  if (info.deadline.has_value() && *info.deadline - now.wall > kPolicyTimeMax) {
    return Invalid(spec, "open_until is more than 10 years from now");
  }
  return info;
}

absl::Status Tasks::CheckRoom(const std::string& tenant,
                              const std::vector<TaskGroupInfo>& infos) const {
  uint64_t tasks = 0;
  uint64_t bytes = 0;
  for (const TaskGroupInfo& info : infos) {
    tasks += info.count;
    bytes += info.bytes();
  }
  if (tasks > kTasksPerCallMax) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "INVALID_TASK_GROUP",
        absl::StrCat("the call creates ", tasks, " tasks, at most ", kTasksPerCallMax));
  }
  const TaskLimits& limits = options_.limits;
  if (table_.tasks() + tasks > limits.tasks_max) {
    return Full("TASKS_FULL",
                absl::StrCat(table_.tasks(), " tasks exist, and tasks-max = ", limits.tasks_max,
                             " is the limit, so there is no room for ", tasks,
                             "; delete rounds that are no longer needed"));
  }
  const uint64_t of_tenant = table_.TasksOf(tenant);
  const uint64_t tenant_max = options_.tenant_tasks_max != nullptr
                                  ? options_.tenant_tasks_max(tenant)
                                  : limits.tenant_tasks_max;
  if (tenant_max > 0 && of_tenant + tasks > tenant_max) {
    return Full("TENANT_TASKS_FULL", absl::StrCat("tenant ", Quoted(tenant), " has ", of_tenant,
                                                  " tasks, and tenant-tasks-max = ", tenant_max,
                                                  " is the limit, so there is no room for ", tasks,
                                                  "; delete rounds that are no longer needed"));
  }
  if (table_.bytes() + bytes > limits.task_bytes_max) {
    return Full(
        "TASK_BYTES_FULL",
        absl::StrCat("tasks hold ", table_.bytes(), " bytes, and task-bytes-max = ",
                     limits.task_bytes_max, " is the limit, so there is no room for ", bytes,
                     " (payloads, names of contributors and workers, texts of "
                     "failures, and 2 KiB for each group); delete rounds that are no longer "
                     "needed"));
  }
  return absl::OkStatus();
}

}  // namespace sparseagg

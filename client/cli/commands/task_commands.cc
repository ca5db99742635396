// task create | list | get | wait | cancel | acquire
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "client/cli/command.h"
#include "client/cli/commands/command_list.h"
#include "client/cli/output.h"
#include "client/cli/policy_flags.h"
#include "client/cli/task_connection.h"
#include "client/io/file_error.h"
#include "client/task_client.h"

namespace sparseagg::cli {
namespace {

using client::TaskGroupInfo;
using client::TaskInfo;

struct CreateFlags {
  CommonFlags common;
  client::NewTaskGroup group;
  std::string payload_file;
  std::string lease;
  std::string deadline;
  std::string request_id;
};

struct ListFlags {
  CommonFlags common;
  client::TaskFilter filter;
  std::string state;
};

struct NamesFlags {
  CommonFlags common;
  std::vector<std::string> names;
  WaitFlags wait;
  uint64_t after_revision = 0;
};

struct AcquireFlags {
  CommonFlags common;
  client::AcquireRequest request;
};

// The time of `task wait` without --wait-timeout.
constexpr uint64_t kWaitForEverMs = uint64_t{1} << 40;

nlohmann::json ToJson(const TaskGroupInfo& group) {
  return {{"name", group.name},           {"pool", group.pool},
          {"round", group.round},         {"tasks", group.tasks},
          {"available", group.available}, {"leased", group.leased},
          {"completed", group.completed}, {"failed", group.failed},
          {"cancelled", group.cancelled}, {"leases", group.leases},
          {"revision", group.revision},   {"durability", client::DurabilityName(group.durability)}};
}

std::string TimeText(client::Time time) {
  return absl::FormatTime(absl::RFC3339_full, absl::FromChrono(time), absl::UTCTimeZone());
}

nlohmann::json ToJson(const TaskInfo& task) {
  nlohmann::json object = {{"name", task.name},
                           {"pool", task.pool},
                           {"round", task.round},
                           {"contributor", task.contributor},
                           {"state", client::TaskStateName(task.state)},
                           {"worker", task.worker},
                           {"attempts", task.attempts},
                           {"attempts_max", task.attempts_max},
                           {"leases", task.leases}};
  if (task.create_time.has_value()) object["create_time"] = TimeText(*task.create_time);
  if (task.end_time.has_value()) object["end_time"] = TimeText(*task.end_time);
  if (task.deadline.has_value()) object["deadline"] = TimeText(*task.deadline);
  if (!task.end_reason.empty()) object["end_reason"] = task.end_reason;
  if (!task.last_failure.empty()) object["last_failure"] = task.last_failure;
  if (!task.payload.empty()) object["payload_bytes"] = task.payload.size();
  if (task.lease.token != 0) {
    object["token"] = task.lease.token;
    object["lease_left_ms"] = task.lease.time_left.count();
  }
  return object;
}

std::string ToText(const TaskInfo& task) {
  std::string out;
  const auto line = [&out](const char* name, const std::string& value) {
    if (!value.empty()) absl::StrAppendFormat(&out, "%-14s %s\n", name, value);
  };
  line("task", task.name);
  line("state", absl::StrCat(std::string(client::TaskStateName(task.state)),
                             task.end_reason.empty() ? "" : ": ", task.end_reason));
  line("pool", task.pool);
  line("round", task.round);
  line("contributor", task.contributor);
  line("worker", task.worker);
  if (task.lease.token != 0) {
    line("token", absl::StrCat(task.lease.token));
    line("lease", absl::StrCat(task.lease.time_left.count(), " ms left"));
  }
  line("attempts", absl::StrCat(task.attempts, " of ", task.attempts_max));
  line("leases", absl::StrCat(task.leases));
  line("last failure", task.last_failure);
  if (!task.payload.empty()) line("payload", FormatBytes(task.payload.size()));
  return out;
}

std::string ToText(const TaskGroupInfo& group) {
  return absl::StrCat(group.name, " tasks=", group.tasks, " available=", group.available,
                      " leased=", group.leased, " completed=", group.completed,
                      " failed=", group.failed, " cancelled=", group.cancelled,
                      " leases=", group.leases, " revision=", group.revision, "\n");
}

void PrintTasks(const std::vector<TaskInfo>& tasks, const CommonFlags& flags) {
  if (flags.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const TaskInfo& task : tasks) list.push_back(ToJson(task));
    return PrintJson({{"tasks", list}});
  }
  std::string out = absl::StrFormat("%-36s %-10s %-20s %-20s %8s\n", "TASK", "STATE", "ROUND",
                                    "WORKER", "LEASES");
  for (const TaskInfo& task : tasks) {
    absl::StrAppendFormat(&out, "%-36s %-10s %-20s %-20s %8d\n", task.name,
                          std::string(client::TaskStateName(task.state)), task.round, task.worker,
                          task.leases);
  }
  Print(out);
}

absl::StatusOr<std::string> ReadPayload(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad()) return client::FileUnusable(path, "cannot be read");
  return bytes;
}

absl::Status Create(const CreateFlags& flags) {
  client::NewTaskGroup group = flags.group;
  if (!flags.payload_file.empty()) {
    SPARSEAGG_ASSIGN_OR_RETURN(group.payload, ReadPayload(flags.payload_file));
  }
  if (!flags.lease.empty()) {
    SPARSEAGG_ASSIGN_OR_RETURN(group.lease, ParseDuration("--lease", flags.lease));
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const client::RoundPolicy policy,
                             PolicyOf({.deadline = flags.deadline}));
  group.open_for = policy.open_for;
  group.open_until = policy.open_until;
  SPARSEAGG_ASSIGN_OR_RETURN(const auto tasks, ConnectTasks(flags.common));
  SPARSEAGG_ASSIGN_OR_RETURN(const auto created, tasks->Create({&group, 1}, flags.request_id));
  if (created.empty()) return absl::InternalError("the server's answer has no task group");
  // Prints the name alone, so that GROUP=$(sparseagg task create ...) works.
  flags.common.json ? PrintJson(ToJson(created.front())) : Print(created.front().name + "\n");
  return absl::OkStatus();
}

absl::Status List(const ListFlags& flags) {
  client::TaskFilter filter = flags.filter;
  if (!flags.state.empty()) filter.state = client::ParseTaskState(flags.state);
  SPARSEAGG_ASSIGN_OR_RETURN(const auto tasks, ConnectTasks(flags.common));
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<TaskInfo> found, tasks->List(filter));
  PrintTasks(found, flags.common);
  return absl::OkStatus();
}

absl::Status Get(const NamesFlags& flags) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto tasks, ConnectTasks(flags.common));
  SPARSEAGG_ASSIGN_OR_RETURN(const TaskInfo task, tasks->Get(flags.names.at(0)));
  flags.common.json ? PrintJson(ToJson(task)) : Print(ToText(task));
  return absl::OkStatus();
}

absl::Status Wait(const NamesFlags& flags) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto tasks, ConnectTasks(flags.common));
  const uint64_t timeout_ms = flags.wait.timeout_s > 0 ? flags.wait.timeout_ms() : kWaitForEverMs;
  SPARSEAGG_ASSIGN_OR_RETURN(const TaskGroupInfo group,
                             tasks->Wait(flags.names.at(0), flags.after_revision, timeout_ms));
  flags.common.json ? PrintJson(ToJson(group)) : Print(ToText(group));
  return absl::OkStatus();
}

absl::Status Cancel(const NamesFlags& flags) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto tasks, ConnectTasks(flags.common));
  SPARSEAGG_ASSIGN_OR_RETURN(const uint64_t cancelled, tasks->Cancel(flags.names));
  flags.common.json ? PrintJson({{"cancelled", cancelled}})
                    : Print(absl::StrCat("cancelled ", cancelled, " tasks\n"));
  return absl::OkStatus();
}

absl::Status Acquire(const AcquireFlags& flags) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto tasks, ConnectTasks(flags.common));
  SPARSEAGG_ASSIGN_OR_RETURN(const client::AcquiredTasks acquired, tasks->Acquire(flags.request));
  if (flags.common.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const TaskInfo& task : acquired.tasks) list.push_back(ToJson(task));
    PrintJson({{"tasks", list},
               {"retry_min_ms", acquired.retry_min.count()},
               {"retry_max_ms", acquired.retry_max.count()}});
    return absl::OkStatus();
  }
  for (const TaskInfo& task : acquired.tasks) Print(ToText(task) + "\n");
  if (acquired.tasks.empty()) {
    Print(absl::StrCat("no task; ask again after ", acquired.retry_min.count(), " to ",
                       acquired.retry_max.count(), " ms\n"));
  }
  return absl::OkStatus();
}

void AddCreate(CLI::App& task, const CliContext& context) {
  auto flags = std::make_shared<CreateFlags>();
  client::NewTaskGroup& group = flags->group;
  CLI::App& command = *task.add_subcommand("create", "Leave tasks for workers; print their group");
  command.add_option("--pool", group.pool, "Pool that the workers ask for")->required();
  command.add_option("--round", group.round, "Round that the updates go to")->required();
  CLI::Option* count = command.add_option("--count", group.count, "Number of tasks");
  CLI::Option* percent = command.add_option(
      "--percent-of-goal", group.percent_of_goal,
      "Number of tasks, as a percentage of the goal of the round: 130 for a goal of 100 is 130");
  CLI::Option* contributors = AddRepeated(command, "--contributor", group.contributors,
                                          "A task for this contributor (may be repeated)");
  count->excludes(percent)->excludes(contributors);
  percent->excludes(contributors);
  command.add_option("--id", group.id, "Id of the group (empty: chosen by the server)");
  command.add_option("--payload", flags->payload_file,
                     "File with what the workers get, up to 1 MiB");
  AddRepeated(command, "--requires", group.required_capabilities,
              "Capability that a worker must have (may be repeated)");
  command.add_option("--lease", flags->lease,
                     "Time without a heartbeat after which another worker gets the task (60s)");
  command.add_option("--attempts-max", group.attempts_max,
                     "Attempts after which a task has failed (0: 3)");
  command.add_option("--deadline", flags->deadline,
                     "When unfinished tasks fail: after this time (10m, 2h), or at a time "
                     "(2026-01-31T18:00:00Z)");
  command.add_option(
      "--request-id", flags->request_id,
      "Id of this request: repeating it with the same content returns the same group");
  AddCommonFlags(command, flags->common);
  SetBody(command, context, flags->common, [flags] { return Create(*flags); });
}

void AddList(CLI::App& task, const CliContext& context) {
  auto flags = std::make_shared<ListFlags>();
  CLI::App& command = *task.add_subcommand("list", "List tasks");
  command.add_option("--group", flags->filter.group, "Tasks of this group only");
  command.add_option("--pool", flags->filter.pool, "Tasks of this pool only");
  command.add_option("--state", flags->state, "Tasks in this state only")
      ->check(CLI::IsMember({"AVAILABLE", "LEASED", "COMPLETED", "FAILED", "CANCELLED"}));
  AddCommonFlags(command, flags->common);
  SetBody(command, context, flags->common, [flags] { return List(*flags); });
}

void AddAcquire(CLI::App& task, const CliContext& context) {
  auto flags = std::make_shared<AcquireFlags>();
  CLI::App& command = *task.add_subcommand(
      "acquire", "Take tasks as a worker does, for debugging; nobody renews their leases");
  AddRepeated(command, "--pool", flags->request.pools, "Pool to look in (may be repeated)")
      ->required();
  command.add_option("--worker", flags->request.worker, "Name of the worker")->required();
  AddRepeated(command, "--capability", flags->request.capabilities,
              "Capability of the worker (may be repeated)");
  command.add_option("--max", flags->request.max, "The most tasks")->capture_default_str();
  AddCommonFlags(command, flags->common);
  SetBody(command, context, flags->common, [flags] { return Acquire(*flags); });
}

}  // namespace

void AddTaskCommands(CLI::App& app, const CliContext& context) {
  CLI::App& task = *app.add_subcommand("task", "Leave tasks for workers, and look after them");
  task.require_subcommand(1);
  AddCreate(task, context);
  AddList(task, context);

  auto get = std::make_shared<NamesFlags>();
  CLI::App& get_command = *task.add_subcommand("get", "Show a task");
  get_command.add_option("task", get->names, "Name: taskgroups/GROUP/tasks/N or GROUP/N")
      ->required()
      ->expected(1);
  AddCommonFlags(get_command, get->common);
  SetBody(get_command, context, get->common, [get] { return Get(*get); });

  auto wait = std::make_shared<NamesFlags>();
  CLI::App& wait_command =
      *task.add_subcommand("wait", "Wait until the tasks of a group have ended, and count them");
  wait_command.add_option("group", wait->names, "Name: taskgroups/GROUP or GROUP")
      ->required()
      ->expected(1);
  wait_command.add_option("--after-revision", wait->after_revision,
                          "Return when the group has a newer revision, too");
  wait_command.add_option("--wait-timeout", wait->wait.timeout_s,
                          "Seconds to wait at most (0: no limit)");
  AddCommonFlags(wait_command, wait->common);
  SetBody(wait_command, context, wait->common, [wait] { return Wait(*wait); });

  auto cancel = std::make_shared<NamesFlags>();
  CLI::App& cancel_command =
      *task.add_subcommand("cancel", "End tasks, or all tasks of groups, that are not finished");
  cancel_command.add_option("names", cancel->names, "Names of groups or tasks")->required();
  AddCommonFlags(cancel_command, cancel->common);
  SetBody(cancel_command, context, cancel->common, [cancel] { return Cancel(*cancel); });

  AddAcquire(task, context);
}

}  // namespace sparseagg::cli

#include "service/tasks/task_names.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/limits.h"
#include "service/engine/names.h"

namespace sparseagg {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kTasksPart = "/tasks/";
constexpr size_t kWordBytesMax = 63;
constexpr milliseconds kLeaseMin{1000};
constexpr milliseconds kLeaseMax{24 * 3600 * 1000};

absl::Status Invalid(std::string_view reason, std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason, message);
}

absl::Status InvalidName(std::string_view name) {
  return Invalid("INVALID_TASK_NAME",
                 absl::StrCat("task name ", Quoted(name),
                              " is not \"taskgroups/\" and an id of [a-z0-9-] starting with a "
                              "letter, or that with \"/tasks/\" and a number from 1"));
}

// A capability.
bool IsWord(std::string_view word) {
  return !word.empty() && word.size() <= kWordBytesMax && std::ranges::all_of(word, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  });
}

bool IsPool(std::string_view pool) { return ValidateRoundId(pool).ok(); }

absl::Status CheckDeadline(const TaskGroupSpec& group, const auto& invalid) {
  if (group.open_for.has_value() &&
      (group.open_for->count() <= 0 || *group.open_for > kPolicyTimeMax)) {
    return invalid("open_for must be positive and at most 10 years");
  }
  return absl::OkStatus();
}

absl::Status CheckContributors(const TaskGroupSpec& group, const auto& invalid) {
  std::set<std::string_view> names;
  for (const std::string& contributor : group.contributors) {
    SPARSEAGG_RETURN_IF_ERROR(ValidateContributor(contributor));
    if (!names.insert(contributor).second) {
      return invalid(absl::StrCat("contributor ", Quoted(contributor), " is there twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSize(const TaskGroupSpec& group, const auto& invalid) {
  const int ways = (group.count.has_value() ? 1 : 0) + (group.percent_of_goal.has_value() ? 1 : 0) +
                   (group.contributors.empty() ? 0 : 1);
  if (ways != 1) return invalid("set one of count, percent_of_goal and contributors");
  if (group.count.has_value() && (*group.count == 0 || *group.count > kTasksPerGroupMax)) {
    return invalid(absl::StrCat("count is ", *group.count, "; use 1 to ", kTasksPerGroupMax));
  }
  if (group.percent_of_goal.has_value() &&
      (*group.percent_of_goal == 0 || *group.percent_of_goal > kTaskPercentOfGoalMax)) {
    return invalid(absl::StrCat("percent_of_goal is ", *group.percent_of_goal, "; use 1 to ",
                                kTaskPercentOfGoalMax));
  }
  return absl::OkStatus();
}

absl::Status CheckGroup(const TaskGroupSpec& group, size_t index) {
  const auto invalid = [&](std::string_view what) {
    const std::string which =
        group.group_id.empty() ? absl::StrCat("group ", index + 1) : Quoted(group.group_id);
    return Invalid("INVALID_TASK_GROUP",
                   absl::StrCat("task group ", which, ": ", std::string(what)));
  };
  if (!group.group_id.empty() && !ValidateRoundId(group.group_id).ok()) {
    return invalid("group_id is not 1 to 63 characters of [a-z0-9-] starting with a letter");
  }
  if (!IsPool(group.pool)) {
    return invalid(absl::StrCat("pool ", Quoted(group.pool),
                                " is not 1 to 63 characters of [a-z0-9-] starting with a letter"));
  }
  SPARSEAGG_RETURN_IF_ERROR(ValidateRoundName(group.round));
  SPARSEAGG_RETURN_IF_ERROR(CheckSize(group, invalid));
  SPARSEAGG_RETURN_IF_ERROR(CheckContributors(group, invalid));
  if (group.payload.size() > kTaskPayloadBytesMax) {
    return invalid(absl::StrCat("the payload has ", group.payload.size(), " bytes, at most ",
                                kTaskPayloadBytesMax));
  }
  if (group.required_capabilities.size() > kRequiredCapabilitiesMax ||
      !std::ranges::all_of(group.required_capabilities, IsWord)) {
    return invalid(absl::StrCat("required_capabilities are at most ", kRequiredCapabilitiesMax,
                                ", each 1 to 63 characters of [A-Za-z0-9._-]"));
  }
  if (group.lease < kLeaseMin || group.lease > kLeaseMax) {
    return invalid(absl::StrCat("the lease is ", group.lease.count(), " ms; use 1 s to 24 h"));
  }
  if (group.attempts_max == 0 || group.attempts_max > kTaskAttemptsMax) {
    return invalid(
        absl::StrCat("attempts_max is ", group.attempts_max, "; use 1 to ", kTaskAttemptsMax));
  }
  return CheckDeadline(group, invalid);
}

}  // namespace

std::string_view TaskStateName(TaskState state) {
  switch (state) {
    case TaskState::kAvailable:
      return "AVAILABLE";
    case TaskState::kLeased:
      return "LEASED";
    case TaskState::kCompleted:
      return "COMPLETED";
    case TaskState::kFailed:
      return "FAILED";
    case TaskState::kCancelled:
      return "CANCELLED";
  }
  return "";
}

std::string_view TaskEndName(TaskEnd end) {
  switch (end) {
    case TaskEnd::kNone:
      return "";
    case TaskEnd::kAttemptsExhausted:
      return "ATTEMPTS_EXHAUSTED";
    case TaskEnd::kNotRetryable:
      return "NOT_RETRYABLE";
    case TaskEnd::kDeadline:
      return "DEADLINE";
    case TaskEnd::kRequested:
      return "REQUESTED";
    case TaskEnd::kRoundClosed:
      return "ROUND_CLOSED";
    case TaskEnd::kStoreCorrupt:
      return "STORE_CORRUPT";
  }
  return "";
}

absl::StatusOr<TaskName> ParseTaskName(std::string_view name) {
  if (!name.starts_with(kTaskGroupPrefix)) return InvalidName(name);
  const size_t slash = name.find('/', kTaskGroupPrefix.size());
  TaskName parsed{.group = std::string(name.substr(0, slash))};
  if (!ValidateRoundId(name.substr(0, slash).substr(kTaskGroupPrefix.size())).ok()) {
    return InvalidName(name);
  }
  if (slash == std::string_view::npos) return parsed;
  const std::string_view rest = name.substr(slash);
  const bool is_task = rest.starts_with(kTasksPart) && rest.size() > kTasksPart.size() &&
                       rest[kTasksPart.size()] >= '1' && rest[kTasksPart.size()] <= '9';
  const std::string digits(is_task ? rest.substr(kTasksPart.size()) : "");
  if (!is_task || !absl::SimpleAtoi(digits, &parsed.number) ||
      absl::StrCat(parsed.number) != digits) {
    return InvalidName(name);
  }
  return parsed;
}

bool IsQualifiedGroup(std::string_view name) {
  const std::string_view tenant = TenantOf(name);
  const auto parsed = ParseTaskName(PublicName(name));
  return parsed.ok() && parsed->number == 0 && ValidateTenant(tenant).ok() &&
         QualifiedName(tenant, PublicName(name)) == name;
}

std::string TaskNameOf(std::string_view group, uint32_t number) {
  return absl::StrCat(std::string(group), std::string(kTasksPart), number);
}

absl::Status CheckCreateTasks(const CreateTasksArgs& args) {
  SPARSEAGG_RETURN_IF_ERROR(ValidateRequestId(args.request_id));
  if (args.groups.empty() || args.groups.size() > kTaskGroupsPerCallMax) {
    return Invalid("INVALID_TASK_GROUP",
                   absl::StrCat("the call has ", args.groups.size(), " task groups; use 1 to ",
                                kTaskGroupsPerCallMax));
  }
  std::set<std::string_view> ids;
  size_t contributors = 0;
  for (size_t i = 0; i < args.groups.size(); ++i) {
    const TaskGroupSpec& group = args.groups[i];
    SPARSEAGG_RETURN_IF_ERROR(CheckGroup(group, i));
    contributors += group.contributors.size();
    if (!group.group_id.empty() && !ids.insert(group.group_id).second) {
      return Invalid("INVALID_TASK_GROUP",
                     absl::StrCat("task group ", Quoted(group.group_id), " is there twice"));
    }
  }
  if (contributors > kTaskContributorsPerCallMax) {
    return Invalid("INVALID_TASK_GROUP",
                   absl::StrCat("the call has ", contributors, " contributors, at most ",
                                kTaskContributorsPerCallMax));
  }
  return absl::OkStatus();
}

absl::Status CheckAcquire(const AcquireArgs& args) {
  if (!ValidateContributor(args.worker).ok()) {
    return Invalid("INVALID_WORKER", absl::StrCat("worker ", Quoted(args.worker),
                                                  " is not 1 to 128 characters of "
                                                  "[A-Za-z0-9._:@|/-]"));
  }
  SPARSEAGG_RETURN_IF_ERROR(ValidateRequestId(args.request_id));
  SPARSEAGG_RETURN_IF_ERROR(CheckNumber("pools", args.pools.size(), kPoolsPerAcquireMax));
  for (const std::string& pool : args.pools) {
    if (IsPool(pool)) continue;
    return Invalid("INVALID_TASK_REQUEST",
                   absl::StrCat("pool ", Quoted(pool),
                                " is not 1 to 63 characters of [a-z0-9-] starting with a letter"));
  }
  if (args.capabilities.size() > kWorkerCapabilitiesMax ||
      !std::ranges::all_of(args.capabilities, IsWord)) {
    return Invalid("INVALID_TASK_REQUEST",
                   absl::StrCat("capabilities are at most ", kWorkerCapabilitiesMax,
                                ", each 1 to 63 characters of [A-Za-z0-9._-]"));
  }
  if (args.max == 0 || args.max > kTasksPerAcquireMax) {
    return Invalid("INVALID_TASK_REQUEST",
                   absl::StrCat("max is ", args.max, "; use 1 to ", kTasksPerAcquireMax));
  }
  return absl::OkStatus();
}

absl::Status CheckNumber(std::string_view what, size_t number, uint64_t limit) {
  if (number >= 1 && number <= limit) return absl::OkStatus();
  return Invalid("INVALID_TASK_REQUEST", absl::StrCat("the call has ", number, " ",
                                                      std::string(what), "; use 1 to ", limit));
}

absl::Status TaskNotFound(std::string_view name) {
  return MakeError(absl::StatusCode::kNotFound, "TASK_NOT_FOUND",
                   absl::StrCat("there is no task ", Quoted(name)));
}

absl::Status TaskGroupNotFound(std::string_view name) {
  return MakeError(absl::StatusCode::kNotFound, "TASK_GROUP_NOT_FOUND",
                   absl::StrCat("there is no task group ", Quoted(name)));
}

}  // namespace sparseagg

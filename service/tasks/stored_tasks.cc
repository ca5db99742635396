#include "service/tasks/stored_tasks.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/limits.h"
#include "service/store/store_errors.h"
#include "service/tasks/task_names.h"

namespace sparseagg {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr std::string_view kEndKey = "end:";
constexpr std::string_view kGroupKey = "group:";
constexpr std::string_view kRequestKey = "request:";
constexpr std::string_view kTaskKey = "task:";

// Clocks and moments in milliseconds, in years to come and for all that is computed with them.
constexpr int64_t kMsMax = int64_t{1} << 42;
constexpr int64_t kLeaseMsMax = 24 * 3600 * 1000;
constexpr uint32_t kAttemptsReadMax = kTaskAttemptsMax + 1;

int64_t ToMs(system_clock::time_point time) {
  return std::chrono::floor<milliseconds>(time.time_since_epoch()).count();
}
system_clock::time_point ToTime(int64_t ms) { return system_clock::time_point(milliseconds(ms)); }

absl::Status Damaged(std::string_view what) {
  return StoreCorrupt(absl::StrCat("the stored ", std::string(what), " cannot be read"));
}

// Thrown for what no version has written.
struct NotWritten {};

// Runs `read` on the parsed text; the library reports wrong types by exceptions.
template <class Value, class Read>
absl::StatusOr<Value> Parse(std::string_view text, std::string_view what, Read read) {
  try {
    Value value;
    if (read(json::parse(text), value)) return value;
  } catch (const json::exception&) {
    return Damaged(what);
  } catch (const NotWritten&) {
    return Damaged(what);
  }
  return Damaged(what);
}

// The library cuts numbers that do not fit.
template <class Value>
Value NumberOf(const json& value, Value least, Value most) {
  // No limit is below 0 or beyond the largest int64_t.
  if (!value.is_number_unsigned()) throw NotWritten();
  const auto number = value.get<uint64_t>();
  if (number < static_cast<uint64_t>(least) || number > static_cast<uint64_t>(most)) {
    throw NotWritten();
  }
  return static_cast<Value>(number);
}
template <class Value>
Value NumberOf(const json& row, const char* name, Value least, Value most, Value otherwise) {
  return row.contains(name) ? NumberOf<Value>(row.at(name), least, most) : otherwise;
}
uint64_t CountOf(const json& value) {
  return NumberOf<uint64_t>(value, 0, std::numeric_limits<int64_t>::max());
}
int64_t MsOf(const json& value) { return NumberOf<int64_t>(value, 0, kMsMax); }

TaskState StateOf(const json& value) {
  return static_cast<TaskState>(NumberOf<int>(value, 1, static_cast<int>(TaskState::kCancelled)));
}
TaskEnd EndOf(const json& row) {
  return static_cast<TaskEnd>(
      NumberOf<int>(row, "end", 0, static_cast<int>(TaskEnd::kStoreCorrupt), 0));
}

// Replaces invalid UTF-8, since a failure may quote any bytes.
std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string GroupRowKey(std::string_view qualified_group) {
  return absl::StrCat(std::string(kGroupKey), std::string(qualified_group));
}

std::string EndRowKey(std::string_view qualified_group) {
  return absl::StrCat(std::string(kEndKey), std::string(qualified_group));
}

std::string RequestRowKey(std::string_view tenant, std::string_view request_id) {
  return absl::StrCat(std::string(kRequestKey), std::string(tenant), " ", std::string(request_id));
}

std::string TaskRowKey(std::string_view qualified_group, uint32_t number) {
  return absl::StrCat(std::string(kTaskKey), std::string(qualified_group), "/", number);
}

void DeleteGroupRows(std::string_view qualified_group, std::vector<TaskRow>& rows) {
  rows.push_back({GroupRowKey(qualified_group), std::nullopt});
  rows.push_back({EndRowKey(qualified_group), std::nullopt});
  rows.push_back({absl::StrCat(std::string(kTaskKey), std::string(qualified_group), "/"),
                  std::nullopt, /*is_prefix=*/true});
}

TaskRowName ParseTaskRowKey(std::string_view key) {
  using Kind = TaskRowName::Kind;
  const auto behind = [key](std::string_view prefix) {
    return std::string(key.substr(prefix.size()));
  };
  const auto of_group = [&](Kind kind, std::string group) -> TaskRowName {
    if (!IsQualifiedGroup(group)) return {};
    return {.kind = kind, .group = std::move(group)};
  };
  if (key == kClockRow) return {.kind = Kind::kClock};
  if (key.starts_with(kEndKey)) return of_group(Kind::kEnd, behind(kEndKey));
  if (key.starts_with(kGroupKey)) return of_group(Kind::kGroup, behind(kGroupKey));
  if (key.starts_with(kRequestKey)) {
    const std::string name = behind(kRequestKey);
    const size_t space = name.find(' ');
    if (space == std::string::npos) return {};
    return {.kind = Kind::kRequest,
            .tenant = name.substr(0, space),
            .request_id = name.substr(space + 1)};
  }
  const size_t slash = key.rfind('/');
  uint32_t number = 0;
  if (!key.starts_with(kTaskKey) || slash == std::string_view::npos || slash < kTaskKey.size() ||
      !absl::SimpleAtoi(std::string(key.substr(slash + 1)), &number)) {
    return {};
  }
  TaskRowName name =
      of_group(Kind::kTask, std::string(key.substr(kTaskKey.size(), slash - kTaskKey.size())));
  if (TaskRowKey(name.group, number) != key) return {};
  name.number = number;
  return name;
}

absl::StatusOr<int64_t> ReadClock(std::string_view row) {
  int64_t ms = 0;
  if (!absl::SimpleAtoi(std::string(row), &ms) || ms < 0 || ms > kMsMax) return Damaged("clock");
  return ms;
}

std::string WriteTaskGroup(const TaskGroupInfo& info) {
  json group = {{"pool", info.pool},
                {"round", info.round},
                {"round_created", info.round_created},
                {"order", info.order},
                {"count", info.count},
                {"contributors", info.contributors},
                {"required", info.required_capabilities},
                {"lease_ms", info.lease.count()},
                {"attempts_max", info.attempts_max},
                {"created_ms", ToMs(info.create_time)},
                {"request_id", info.request_id},
                {"request_digest", info.request_digest}};
  if (info.deadline.has_value()) group["deadline_ms"] = ToMs(*info.deadline);
  return absl::StrCat(Dump(group), "\n", *info.payload);
}

absl::StatusOr<TaskGroupInfo> ReadTaskGroup(std::string_view qualified_group,
                                            std::string_view row) {
  const std::string what = absl::StrCat("task group \"", std::string(qualified_group), "\"");
  const size_t line = row.find('\n');
  if (line == std::string_view::npos) return Damaged(what);
  return Parse<TaskGroupInfo>(row.substr(0, line), what, [&](const json& group, auto& info) {
    info.name = qualified_group;
    info.durability = Durability::kDurable;
    group.at("pool").get_to(info.pool);
    group.at("round").get_to(info.round);
    constexpr int64_t kTimeMax = std::numeric_limits<int64_t>::max();
    info.round_created = NumberOf<int64_t>(group, "round_created", 0, kTimeMax, 0);
    info.order = CountOf(group.at("order"));
    info.count = NumberOf<uint32_t>(group.at("count"), 1, kTasksPerGroupMax);
    group.at("contributors").get_to(info.contributors);
    group.at("required").get_to(info.required_capabilities);
    info.lease = milliseconds(NumberOf<int64_t>(group.at("lease_ms"), 1, kLeaseMsMax));
    info.attempts_max = NumberOf<uint32_t>(group.at("attempts_max"), 1, kTaskAttemptsMax);
    info.create_time = ToTime(MsOf(group.at("created_ms")));
    group.at("request_id").get_to(info.request_id);
    group.at("request_digest").get_to(info.request_digest);
    if (group.contains("deadline_ms")) info.deadline = ToTime(MsOf(group.at("deadline_ms")));
    info.payload = std::make_shared<const std::string>(row.substr(line + 1));
    const bool counts = info.contributors.empty() || info.contributors.size() == info.count;
    return counts;
  });
}

std::string WriteTask(const TaskRecord& record) {
  json task = {{"state", static_cast<int>(record.state)},
               {"attempts", record.attempts},
               {"leases", record.leases},
               {"token", record.token},
               {"worker", record.worker}};
  if (record.end != TaskEnd::kNone) task["end"] = static_cast<int>(record.end);
  if (record.answered_token != 0) task["answered"] = record.answered_token;
  if (record.state == TaskState::kLeased) task["lease_end_ms"] = record.lease_end_ms;
  if (record.end_time_ms != 0) task["end_ms"] = record.end_time_ms;
  if (!record.request.empty()) task["request"] = ToText(record.request);
  if (!record.last_failure.empty()) task["failure"] = record.last_failure;
  return Dump(task);
}

absl::StatusOr<TaskRecord> ReadTask(std::string_view tenant, std::string_view row) {
  return Parse<TaskRecord>(row, "task", [&](const json& task, TaskRecord& record) {
    record.state = StateOf(task.at("state"));
    record.end = EndOf(task);
    record.attempts = NumberOf<uint32_t>(task.at("attempts"), 0, kAttemptsReadMax);
    record.leases = CountOf(task.at("leases"));
    record.token = CountOf(task.at("token"));
    task.at("worker").get_to(record.worker);
    // Earlier versions kept the token of an earlier lease, too.
    record.answered_token =
        task.contains("answered") && CountOf(task.at("answered")) == record.token ? record.token
                                                                                  : 0;
    record.lease_end_ms = NumberOf<int64_t>(task, "lease_end_ms", 0, kMsMax, 0);
    record.end_time_ms = NumberOf<int64_t>(task, "end_ms", 0, kMsMax, 0);
    record.last_failure = task.value("failure", "");
    if (task.contains("request_id")) {  // of an earlier version
      record.request =
          KeyOfRequest(tenant, record.worker, task.at("request_id").get<std::string>());
    }
    if (!task.contains("request")) return true;
    const auto request = ParseRequestKey(task.at("request").get<std::string>());
    if (request.has_value()) record.request = *request;
    return request.has_value();
  });
}

std::string WriteGroupEnd(const TaskGroupEnd& end) {
  json row = {{"state", static_cast<int>(end.state)},
              {"end", static_cast<int>(end.why)},
              {"end_ms", end.end_time_ms}};
  if (!end.completed.empty()) row["completed"] = end.completed;
  return Dump(row);
}

absl::StatusOr<TaskGroupEnd> ReadGroupEnd(std::string_view row) {
  return Parse<TaskGroupEnd>(row, "end of a task group", [](const json& stored, auto& end) {
    end.state = StateOf(stored.at("state"));
    end.why = EndOf(stored);
    end.end_time_ms = MsOf(stored.at("end_ms"));
    uint32_t last = 0;
    for (const json& range : stored.value("completed", json::array())) {
      const auto first = NumberOf<uint32_t>(range.at(0), last + 1, kTasksPerGroupMax);
      last = NumberOf<uint32_t>(range.at(1), first, kTasksPerGroupMax);
      end.completed.emplace_back(first, last);
    }
    return IsFinal(end.state);
  });
}

std::string WriteForgottenRequest(const ForgottenRequest& request) {
  return Dump({{"digest", request.digest}, {"forgotten_ms", request.forgotten_ms}});
}

absl::StatusOr<ForgottenRequest> ReadForgottenRequest(std::string_view row) {
  return Parse<ForgottenRequest>(row, "request", [](const json& stored, auto& request) {
    stored.at("digest").get_to(request.digest);
    request.forgotten_ms = MsOf(stored.at("forgotten_ms"));
    return true;
  });
}

}  // namespace sparseagg

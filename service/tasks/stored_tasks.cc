#include "service/tasks/stored_tasks.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/limits.h"
#include "service/store/store_errors.h"

namespace sparseagg {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr std::string_view kGroupKey = "group:";
constexpr std::string_view kTaskKey = "task:";

int64_t ToMs(system_clock::time_point time) {
  return std::chrono::floor<milliseconds>(time.time_since_epoch()).count();
}
system_clock::time_point ToTime(int64_t ms) { return system_clock::time_point(milliseconds(ms)); }

absl::Status Damaged(std::string_view what) {
  return StoreCorrupt(absl::StrCat("the stored ", std::string(what), " cannot be read"));
}

// Runs `read` on the parsed text; the library reports wrong types by exceptions.
template <class Value, class Read>
absl::StatusOr<Value> Parse(std::string_view text, std::string_view what, Read read) {
  try {
    Value value;
    if (read(json::parse(text), value)) return value;
  } catch (const json::exception&) {
    return Damaged(what);
  }
  return Damaged(what);
}

// Replaces invalid UTF-8, since a failure may quote any bytes.
std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string GroupRowKey(std::string_view qualified_group) {
  return absl::StrCat(std::string(kGroupKey), std::string(qualified_group));
}

std::string TaskRowKey(std::string_view qualified_group, uint32_t number) {
  return absl::StrCat(std::string(kTaskKey), std::string(qualified_group), "/", number);
}

TaskRowName ParseTaskRowKey(std::string_view key) {
  using Kind = TaskRowName::Kind;
  if (key == kClockRow) return {.kind = Kind::kClock};
  if (key.starts_with(kGroupKey)) {
    return {.kind = Kind::kGroup, .group = std::string(key.substr(kGroupKey.size()))};
  }
  const size_t slash = key.rfind('/');
  TaskRowName name;
  if (!key.starts_with(kTaskKey) || slash == std::string_view::npos ||
      !absl::SimpleAtoi(std::string(key.substr(slash + 1)), &name.number)) {
    return {};
  }
  name.kind = Kind::kTask;
  name.group = key.substr(kTaskKey.size(), slash - kTaskKey.size());
  return name;
}

std::string WriteTaskGroup(const TaskGroupInfo& info) {
  json group = {{"pool", info.pool},
                {"round", info.round},
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
    group.at("order").get_to(info.order);
    group.at("count").get_to(info.count);
    group.at("contributors").get_to(info.contributors);
    group.at("required").get_to(info.required_capabilities);
    info.lease = milliseconds(group.at("lease_ms").get<int64_t>());
    group.at("attempts_max").get_to(info.attempts_max);
    info.create_time = ToTime(group.at("created_ms").get<int64_t>());
    group.at("request_id").get_to(info.request_id);
    group.at("request_digest").get_to(info.request_digest);
    if (group.contains("deadline_ms")) info.deadline = ToTime(group.at("deadline_ms"));
    info.payload = std::make_shared<const std::string>(row.substr(line + 1));
    const bool counts = info.contributors.empty() || info.contributors.size() == info.count;
    return counts && info.count > 0 && info.count <= kTasksPerGroupMax && info.lease.count() > 0;
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
  if (!record.request_id.empty()) task["request_id"] = record.request_id;
  if (!record.last_failure.empty()) task["failure"] = record.last_failure;
  return Dump(task);
}

absl::StatusOr<TaskRecord> ReadTask(std::string_view row) {
  return Parse<TaskRecord>(row, "task", [](const json& task, TaskRecord& record) {
    const int state = task.at("state");
    const int end = task.value("end", 0);
    record.state = static_cast<TaskState>(state);
    record.end = static_cast<TaskEnd>(end);
    task.at("attempts").get_to(record.attempts);
    task.at("leases").get_to(record.leases);
    task.at("token").get_to(record.token);
    task.at("worker").get_to(record.worker);
    record.answered_token = task.value("answered", uint64_t{0});
    record.lease_end_ms = task.value("lease_end_ms", int64_t{0});
    record.end_time_ms = task.value("end_ms", int64_t{0});
    record.request_id = task.value("request_id", "");
    record.last_failure = task.value("failure", "");
    return state >= 1 && state <= static_cast<int>(TaskState::kCancelled) && end >= 0 &&
           end <= static_cast<int>(TaskEnd::kStoreCorrupt);
  });
}

}  // namespace sparseagg

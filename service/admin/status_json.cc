#include "service/admin/status_json.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/escaping.h"
#include "base/status.h"
#include "service/engine/names.h"
#include "service/engine/round_state.h"

namespace sparseagg {
namespace {

using std::chrono::system_clock;

// Milliseconds since 1970, JavaScript's unit.
int64_t Ms(system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

Json Ms(const std::optional<system_clock::time_point>& time) {
  return time.has_value() ? Json(Ms(*time)) : Json(nullptr);
}

Json UseOf(uint64_t used, uint64_t max) { return {{"used", used}, {"max", max}}; }

Json DevicesJson(const std::vector<DeviceStats>& devices) {
  Json list = Json::array();
  for (const DeviceStats& device : devices) {
    list.push_back({{"device", device.device},
                    {"lost", device.lost},
                    {"memory", UseOf(device.memory_bytes, device.memory_bytes_max)},
                    {"locked_bytes", device.locked_bytes},
                    {"uploaded_bytes", device.uploaded_bytes},
                    {"downloaded_bytes", device.downloaded_bytes},
                    {"queued_bytes", device.queued_bytes},
                    {"waiting_tasks", device.waiting_tasks},
                    {"busy_seconds", device.busy_seconds}});
  }
  return list;
}

Json LeavesJson(const std::vector<LeafStatus>& leaves) {
  Json list = Json::array();
  for (const LeafStatus& leaf : leaves) {
    list.push_back({{"id", leaf.leaf.id},
                    {"address", leaf.leaf.address},
                    {"up", leaf.up},
                    {"silent_ms", leaf.silent_for.count()},
                    {"error", leaf.error},
                    {"rounds", leaf.rounds},
                    {"partial_bytes", leaf.partial_bytes},
                    {"given_up", leaf.given_up}});
  }
  return list;
}

Json EngineJson(const Engine& engine) {
  const EngineStats stats = engine.Stats();
  const Limits& limits = engine.limits();
  Json rounds = Json::object();
  uint64_t total = 0;
  for (const RoundState state :
       {RoundState::kOpen, RoundState::kSealed, RoundState::kPublished, RoundState::kAborted}) {
    const auto found = stats.rounds.find(state);
    const uint64_t count = found == stats.rounds.end() ? 0 : found->second;
    rounds[std::string(RoundStateName(state))] = count;
    total += count;
  }
  const BackendInfo& backend = engine.backend_info();
  return {{"backend",
           {{"name", backend.name},
            {"description", backend.description},
            {"threads", backend.threads},
            {"memory_bytes", backend.memory_bytes},
            {"plans", backend.plans}}},
          {"rounds", rounds},
          {"rounds_use", UseOf(total, limits.rounds_max)},
          {"staging", UseOf(stats.staged_bytes, limits.staging_bytes_max)},
          {"aggregation", UseOf(stats.aggregation_bytes, stats.aggregation_bytes_max)},
          {"uploads", UseOf(stats.open_uploads, limits.open_uploads_max)},
          {"upload_disk", UseOf(stats.upload_disk_bytes, limits.upload_disk_bytes_max)},
          {"waiting_tasks", stats.waiting_tasks},
          {"devices", DevicesJson(stats.devices)},
          {"leaves", LeavesJson(stats.leaves)},
          {"disk_free_min", limits.store_free_bytes_min}};
}

Json TasksJson(Tasks& tasks) {
  const TaskStats stats = tasks.Stats();
  const uint64_t all = stats.available + stats.leased + stats.finished;
  return {{"groups", stats.groups},
          {"use", UseOf(all, tasks.limits().tasks_max)},
          {"bytes", UseOf(stats.payload_bytes, tasks.limits().task_bytes_max)},
          {"available", stats.available},
          {"leased", stats.leased},
          {"leases", stats.acquired},
          {"polls", stats.polls},
          {"leases_ended", stats.leases_ended},
          {"fenced", stats.fenced},
          {"completed", stats.completed},
          {"failed", stats.failed},
          {"cancelled", stats.cancelled}};
}

Json TotalsJson(const Totals& totals) {
  return {{"accepted", totals.accepted}, {"duplicates", totals.duplicates},
          {"refused", totals.refused},   {"payload_bytes", totals.payload_bytes},
          {"nnz", totals.nnz},           {"calls", totals.calls}};
}

Json RefusalsJson(const Metrics& metrics, const Refusals& refusals) {
  Json recent = Json::array();
  for (const Refusal& refusal : refusals.Recent()) {
    recent.push_back({{"time", Ms(refusal.time)},
                      {"round", refusal.round},
                      {"contributor", refusal.contributor},
                      {"reason", refusal.reason},
                      {"retry", refusal.retry}});
  }
  return {{"by_reason", metrics.refusals()}, {"recent", recent}};
}

Json VerificationsJson(const Metrics& metrics) {
  const Metrics::Verifications rounds = metrics.verifications();
  return {{"verified", rounds.verified},
          {"mismatched", rounds.mismatched},
          {"not_verified", rounds.not_verified}};
}

Json PlansJson(const Metrics& metrics) {
  Json plans = Json::array();
  for (const Metrics::PlanSeconds& row : metrics.plans()) {
    plans.push_back({{"backend", row.backend},
                     {"plan", row.plan},
                     {"seconds", row.seconds},
                     {"predicted_seconds", row.predicted_seconds}});
  }
  return plans;
}

// Arrays instead of objects, because a page gets 300 of them when it is opened.
Json HistoryJson(const History& history, uint64_t after) {
  Json rows = Json::array();
  for (const HistorySample& s : history.After(after)) {
    rows.push_back({s.number, Ms(s.time), s.updates_per_s, s.refused_per_s, s.bytes_per_s,
                    s.nnz_per_s, s.submit_p50_s, s.submit_p99_s, s.staged_bytes,
                    s.aggregation_bytes});
  }
  return {{"interval_s", History::kInterval.count()},
          {"columns",
           {"number", "time", "updates_per_s", "refused_per_s", "bytes_per_s", "nnz_per_s",
            "submit_p50_s", "submit_p99_s", "staged_bytes", "aggregation_bytes"}},
          {"rows", rows}};
}

uint64_t NnzReceived(const RoundSnapshot& round) {
  uint64_t nnz = 0;
  for (const TensorStatus& tensor : round.tensors) nnz += tensor.nnz_received;
  return nnz;
}

// The fields of a round both in the list and in full.
Json RoundHead(const RoundSnapshot& round) {
  return {{"name", QualifiedName(round.tenant, round.name)},
          {"state", std::string(RoundStateName(round.state))},
          {"durable", round.spec.durability == Durability::kDurable},
          {"create_time", Ms(round.create_time)},
          {"seal_time", Ms(round.seal_time)},
          {"publish_time", Ms(round.publish_time)},
          {"contributors", round.contributors},
          {"goal", round.spec.policy.goal_contributors},
          {"close_time", Ms(round.close_time)},
          {"bytes", round.bytes_received},
          {"nnz", NnzReceived(round)}};
}

// The round's end conditions besides its goal. 0 or null: no such limit.
Json PolicyJson(const RoundSnapshot& round) {
  const RoundPolicy& policy = round.spec.policy;
  return {{"min_contributors", policy.min_contributors},
          {"max_contributors", policy.max_contributors},
          {"grace_ms", policy.grace.count()},
          {"goal_reached", round.goal_reached},
          {"seal_reason", round.seal_reason.has_value()
                              ? Json(std::string(SealReasonName(*round.seal_reason)))
                              : Json(nullptr)}};
}

Json TensorJson(const TensorSpec& spec, const TensorStatus& status, uint64_t contributors) {
  Json json = {{"name", spec.name},
               {"value_type", std::string(ValueTypeName(spec.value_type))},
               {"dense_shape", spec.dense_shape},
               {"sparse_dim", spec.sparse_dim},
               {"op", spec.op},
               {"nnz_received", status.nnz_received},
               {"nnz_result", status.nnz_result},
               {"backend", status.backend},
               {"plan", status.reduction.plan},
               {"plan_reason", status.reduction.reason},
               {"predicted_seconds", status.reduction.predicted_seconds},
               {"measured_seconds", status.reduction.seconds}};
  const absl::StatusOr<TensorLayout> layout = MakeLayout(spec);
  if (layout.ok() && spec.sparse_dim > 0) {
    const auto rows = static_cast<double>(layout->num_rows);
    const auto updates = static_cast<double>(std::max<uint64_t>(contributors, 1));
    json["num_rows"] = layout->num_rows;
    json["update_density"] = static_cast<double>(status.nnz_received) / (rows * updates);
    json["result_density"] = static_cast<double>(status.nnz_result) / rows;
  }
  return json;
}

Json ManifestJson(const Manifest& manifest) {
  return {{"contributors", manifest.contributors},
          {"total_weight", manifest.total_weight},
          {"rejected", manifest.rejected},
          {"late", manifest.late},
          {"duplicates", manifest.duplicates},
          {"infinite_values", manifest.infinite_values},
          {"updates_digest", absl::BytesToHexString(manifest.updates_digest)},
          {"result_digest", absl::BytesToHexString(manifest.result_digest)}};
}

}  // namespace

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string_view PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kStarting:
      return "starting";
    case Phase::kServing:
      return "serving";
    case Phase::kStopping:
      return "stopping";
  }
  return "unknown";
}

Json StatusJson(const StatusInput& input) {
  const ProcessStats process = ReadProcessStats();
  const std::optional<uint64_t> free_bytes = FreeBytes(input.data_dir);
  return {
      {"version", input.version},
      {"phase", std::string(PhaseName(input.phase))},
      {"listen", input.listen},
      {"data_dir", input.data_dir},
      {"start_time", Ms(input.start_time)},
      {"now", Ms(input.now)},
      {"process",
       {{"resident_bytes", process.resident_bytes},
        {"cpu_seconds", process.cpu_seconds},
        {"open_files", UseOf(process.open_files, process.open_files_max)},
        {"disk_free_bytes", free_bytes.has_value() ? Json(*free_bytes) : Json(nullptr)}}},
      {"engine", input.engine == nullptr ? Json(nullptr) : EngineJson(*input.engine)},
      {"tasks", input.tasks == nullptr ? Json(nullptr) : TasksJson(*input.tasks)},
      {"totals", TotalsJson(input.metrics.totals())},
      {"refusals", RefusalsJson(input.metrics, input.refusals)},
      {"plans", PlansJson(input.metrics)},
      {"verifications", VerificationsJson(input.metrics)},
      {"history", HistoryJson(input.history, input.history_after)},
  };
}

Json RoundsJson(Engine& engine, size_t limit) {
  std::vector<RoundSnapshot> rounds = engine.ListRounds("", std::numeric_limits<size_t>::max());
  const size_t total = rounds.size();
  const size_t shown = std::min(limit, total);
  std::partial_sort(rounds.begin(), rounds.begin() + static_cast<std::ptrdiff_t>(shown),
                    rounds.end(), [](const RoundSnapshot& a, const RoundSnapshot& b) {
                      return std::pair(b.create_time, std::string_view(a.name)) <
                             std::pair(a.create_time, std::string_view(b.name));
                    });
  Json rows = Json::array();
  for (size_t i = 0; i < shown; ++i) {
    Json row = RoundHead(rounds[i]);
    row["tensors"] = rounds[i].tensors.size();
    if (!rounds[i].tensors.empty()) {
      row["backend"] = rounds[i].tensors.front().backend;
      row["plan"] = rounds[i].tensors.front().reduction.plan;
    }
    rows.push_back(std::move(row));
  }
  return {{"total", total}, {"rounds", rows}};
}

Json RoundJson(const RoundSnapshot& round) {
  Json json = RoundHead(round);
  // The message of a failure may name an index; the caller's log has it, this page does not.
  json["failed"] = !round.failure.empty();
  json["stall"] = ErrorReason(round.stall);
  Json tensors = Json::array();
  for (size_t i = 0; i < round.tensors.size() && i < round.spec.tensors.size(); ++i) {
    tensors.push_back(TensorJson(round.spec.tensors[i], round.tensors[i], round.contributors));
  }
  json["tensors"] = tensors;
  json["policy"] = PolicyJson(round);
  json["manifest"] = round.manifest.has_value() ? ManifestJson(*round.manifest) : Json(nullptr);
  return json;
}

Json ConfigJson(std::span<const ConfigRow> rows) {
  Json settings = Json::array();
  for (const ConfigRow& row : rows) {
    settings.push_back({{"name", row.name},
                        {"value", row.value},
                        {"source", row.source},
                        {"unit", row.unit},
                        {"help", row.help}});
  }
  return {{"settings", settings}};
}

}  // namespace sparseagg

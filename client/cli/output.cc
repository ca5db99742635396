#include "client/cli/output.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/cli/tensor_spec.h"

namespace sparseagg::cli {
namespace {

using nlohmann::json;

std::string FormatTime(client::Time time) {
  return absl::FormatTime(absl::RFC3339_full, absl::FromChrono(time), absl::UTCTimeZone());
}

void SetTime(json& object, const char* name, const std::optional<client::Time>& time) {
  if (time.has_value()) object[name] = FormatTime(*time);
}

json SpecToJson(const TensorSpec& spec) {
  json object = {{"name", spec.name},
                 {"value_type", ValueTypeName(spec.value_type)},
                 {"dense_shape", spec.dense_shape},
                 {"sparse_dim", spec.sparse_dim},
                 {"op", spec.op},
                 {"integer_overflow",
                  spec.integer_overflow == IntegerOverflow::kModular ? "modular" : "checked"}};
  if (!spec.plan.empty()) object["plan"] = spec.plan;
  return object;
}

void AppendLine(std::string& out, const char* name, const std::string& value) {
  absl::StrAppendFormat(&out, "%-14s %s\n", name, value);
}

std::string StateText(const client::RoundInfo& round) {
  std::string text(client::RoundStateName(round.state));
  if (!round.failure.empty()) absl::StrAppend(&text, ": ", round.failure);
  return text;
}

json EpochToJson(const client::StoreEpoch& epoch) {
  return {{"store_id", epoch.store_id}, {"epoch", epoch.epoch}};
}

json LoadToJson(const client::ServerLoad& load) {
  return {{"staging_bytes", load.staging_bytes},
          {"aggregation_bytes", load.aggregation_bytes},
          {"upload_disk_bytes", load.upload_disk_bytes},
          {"open_uploads", load.open_uploads},
          {"rounds", load.rounds},
          {"calls", load.calls}};
}

double SecondsOf(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1e3; }

json PolicyToJson(const client::RoundPolicy& policy) {
  json object = {{"goal_contributors", policy.goal_contributors},
                 {"grace_seconds", SecondsOf(policy.grace)},
                 {"min_contributors", policy.min_contributors},
                 {"max_contributors", policy.max_contributors}};
  if (policy.open_for) object["open_for_seconds"] = SecondsOf(*policy.open_for);
  SetTime(object, "open_until", policy.open_until);
  return object;
}

// "at least 50, at most 120", without limits that are not set.
std::string LimitsText(const client::RoundPolicy& policy) {
  std::vector<std::string> limits;
  if (policy.min_contributors > 0) {
    limits.push_back(absl::StrCat("at least ", policy.min_contributors));
  }
  if (policy.max_contributors > 0) {
    limits.push_back(absl::StrCat("at most ", policy.max_contributors));
  }
  return absl::StrJoin(limits, ", ");
}

std::string DumpText(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

}  // namespace

json ToJson(const client::Manifest& manifest) {
  json object = {{"contributors", manifest.contributors},
                 {"total_weight", manifest.total_weight},
                 {"rejected", manifest.rejected},
                 {"duplicates", manifest.duplicates},
                 {"updates_digest", absl::BytesToHexString(manifest.updates_digest)},
                 {"result_digest", absl::BytesToHexString(manifest.result_digest)},
                 {"infinite_values", manifest.infinite_values},
                 {"late", manifest.late},
                 {"given_up_leaves", manifest.given_up_leaves},
                 {"seal_reason", client::SealReasonName(manifest.seal_reason)}};
  SetTime(object, "publish_time", manifest.publish_time);
  object["parts"] = json::array();
  for (const client::ResultPart& part : manifest.parts) {
    object["parts"].push_back(
        {{"owner", part.owner.id}, {"address", part.owner.address}, {"round", part.round}});
  }
  return object;
}

json ToJson(const client::RoundInfo& round) {
  json object = {{"name", round.name},
                 {"state", client::RoundStateName(round.state)},
                 {"durability", client::DurabilityName(round.durability)},
                 {"contributors", round.contributors},
                 {"bytes_received", round.bytes_received},
                 {"revision", round.revision},
                 {"spec", json::array()},
                 {"tensors", ToJson(round.tensor_status)},
                 {"policy", PolicyToJson(round.policy)},
                 {"goal_reached", round.goal_reached},
                 {"keep_updates_until_deleted", round.keep_updates},
                 {"epoch", EpochToJson(round.epoch)}};
  if (round.seal_reason != client::SealReason::kNone) {
    object["seal_reason"] = client::SealReasonName(round.seal_reason);
  }
  if (round.time_left) object["time_left_seconds"] = SecondsOf(*round.time_left);
  SetTime(object, "close_time", round.close_time);
  for (const TensorSpec& spec : round.tensors) object["spec"].push_back(SpecToJson(spec));
  SetTime(object, "create_time", round.create_time);
  SetTime(object, "seal_time", round.seal_time);
  SetTime(object, "publish_time", round.publish_time);
  if (round.manifest.has_value()) object["manifest"] = ToJson(*round.manifest);
  if (!round.failure.empty()) object["failure"] = round.failure;
  if (!round.stall.empty()) object["stall"] = round.stall;
  return object;
}

json ToJson(const client::Receipt& receipt) {
  json encodings = json::array();
  for (const client::TensorEncoding& sent : receipt.encodings) {
    encodings.push_back({{"tensor", sent.tensor},
                         {"encoding", sent.encoding},
                         {"values", sent.values},
                         {"nnz", sent.nnz},
                         {"bytes", sent.bytes}});
  }
  return {{"round", receipt.round},
          {"contributor", receipt.contributor},
          {"update_id", receipt.update_id},
          {"duplicate", receipt.duplicate},
          {"sequence", receipt.sequence},
          {"digest", absl::BytesToHexString(receipt.digest)},
          {"durability", client::DurabilityName(receipt.durability)},
          {"encodings", std::move(encodings)},
          {"epoch", EpochToJson(receipt.epoch)}};
}

json ToJson(const client::Verification& verified) {
  return {{"contributors", verified.contributors},
          {"bytes_read", verified.bytes_read},
          {"updates_digest", absl::BytesToHexString(verified.updates_digest)},
          {"result_digest", absl::BytesToHexString(verified.result_digest)},
          {"backend", verified.backend}};
}

json ToJson(const client::ServerInfo& info) {
  json object = {{"version", info.version},
                 {"backends", json::array()},
                 {"operators", info.operators},
                 {"encodings", info.encodings},
                 {"values_encodings", info.values_encodings},
                 {"value_types", json::array()},
                 {"limits", json::array()},
                 {"default_durability", client::DurabilityName(info.default_durability)},
                 {"durabilities", json::array()},
                 {"epoch", EpochToJson(info.epoch)}};
  for (const client::BackendStatus& backend : info.backends) {
    object["backends"].push_back({{"name", backend.name},
                                  {"description", backend.description},
                                  {"available", backend.available},
                                  {"unavailable_reason", backend.unavailable_reason},
                                  {"plans", backend.plans},
                                  {"selected", backend.selected},
                                  {"devices", backend.devices}});
  }
  for (const ValueType type : info.value_types)
    object["value_types"].push_back(ValueTypeName(type));
  for (const client::LimitInfo& limit : info.limits) {
    object["limits"].push_back(
        {{"name", limit.name}, {"value", limit.value}, {"unit", limit.unit}, {"help", limit.help}});
  }
  for (const client::Durability durability : info.durabilities) {
    object["durabilities"].push_back(client::DurabilityName(durability));
  }
  if (info.load) object["load"] = LoadToJson(*info.load);
  return object;
}

json ToJson(const std::vector<client::TensorStatus>& tensors) {
  json list = json::array();
  for (const client::TensorStatus& tensor : tensors) {
    list.push_back({{"name", tensor.name},
                    {"backend", tensor.backend},
                    {"plan", tensor.plan},
                    {"plan_reason", tensor.plan_reason},
                    {"nnz_received", tensor.nnz_received},
                    {"nnz_result", tensor.nnz_result},
                    {"predicted_seconds", tensor.predicted_seconds},
                    {"measured_seconds", tensor.measured_seconds}});
  }
  return list;
}

json ToJson(const std::vector<client::TensorView>& tensors) {
  json list = json::array();
  for (const client::TensorView& tensor : tensors) {
    list.push_back({{"name", tensor.name},
                    {"value_type", ValueTypeName(tensor.entries.layout.value_type)},
                    {"dense_shape", tensor.dense_shape},
                    {"sparse_dim", tensor.sparse_dim},
                    {"nnz", tensor.entries.nnz}});
  }
  return list;
}

std::string ToText(const client::RoundInfo& round) {
  std::string out;
  AppendLine(out, "name", round.name);
  AppendLine(out, "state", StateText(round));
  if (!round.stall.empty()) AppendLine(out, "stalled by", round.stall);
  AppendLine(out, "durability", std::string(client::DurabilityName(round.durability)));
  const std::string limits = LimitsText(round.policy);
  AppendLine(out, "contributors",
             absl::StrCat(ProgressText(round), limits.empty() ? "" : " (" + limits + ")"));
  AppendLine(out, "received", FormatBytes(round.bytes_received));
  if (round.create_time.has_value()) AppendLine(out, "created", FormatTime(*round.create_time));
  if (round.close_time.has_value()) {
    AppendLine(
        out, "closes",
        absl::StrCat(FormatTime(*round.close_time), round.goal_reached ? ", goal reached" : "",
                     round.time_left ? ", in " + FormatSeconds(SecondsOf(*round.time_left)) : ""));
  }
  if (round.seal_reason != client::SealReason::kNone) {
    AppendLine(out, "sealed by", std::string(client::SealReasonName(round.seal_reason)));
  }
  if (round.publish_time.has_value()) AppendLine(out, "published", FormatTime(*round.publish_time));
  for (const TensorSpec& spec : round.tensors) AppendLine(out, "tensor", FormatTensorSpec(spec));
  for (const client::TensorStatus& tensor : round.tensor_status) {
    AppendLine(out, "plan", ToText(tensor));
  }
  if (!round.manifest.has_value()) return out;
  const client::Manifest& manifest = *round.manifest;
  AppendLine(out, "total weight", absl::StrFormat("%.17g", manifest.total_weight));
  AppendLine(out, "result digest", absl::BytesToHexString(manifest.result_digest));
  for (const auto& [reason, count] : manifest.rejected) {
    AppendLine(out, "rejected", absl::StrCat(count, " ", reason));
  }
  for (const auto& [reason, count] : manifest.late) {
    AppendLine(out, "late", absl::StrCat(count, " after ", reason));
  }
  for (const std::string& leaf : manifest.given_up_leaves) AppendLine(out, "given up", leaf);
  for (const client::ResultPart& part : manifest.parts) {
    AppendLine(out, "part", absl::StrCat(part.round, " at ", part.owner.address));
  }
  if (manifest.infinite_values > 0) {
    AppendLine(out, "infinite", absl::StrCat(manifest.infinite_values, " values"));
  }
  return out;
}

std::string ToText(const std::vector<client::RoundInfo>& rounds) {
  size_t width = 4;
  for (const client::RoundInfo& round : rounds) width = std::max(width, round.name.size());
  std::string out = absl::StrFormat("%-*s  %-9s  %12s  %10s  %s\n", static_cast<int>(width), "NAME",
                                    "STATE", "CONTRIBUTORS", "RECEIVED", "TENSORS");
  for (const client::RoundInfo& round : rounds) {
    absl::StrAppendFormat(&out, "%-*s  %-9s  %12d  %10s  %d\n", static_cast<int>(width), round.name,
                          std::string(client::RoundStateName(round.state)), round.contributors,
                          FormatBytes(round.bytes_received), round.tensors.size());
  }
  return out;
}

std::string ToText(const client::ServerInfo& info) {
  std::string out;
  AppendLine(out, "version", info.version);
  for (const client::BackendStatus& backend : info.backends) {
    const std::string state = !backend.available ? "not available: " + backend.unavailable_reason
                              : backend.selected ? "selected, " + backend.description
                                                 : backend.description;
    AppendLine(out, "back end", absl::StrCat(backend.name, " (", state, ")"));
  }
  AppendLine(out, "operators", absl::StrJoin(info.operators, " "));
  AppendLine(out, "encodings", absl::StrJoin(info.encodings, " "));
  AppendLine(out, "values", absl::StrJoin(info.values_encodings, " "));
  AppendLine(out, "durability", std::string(client::DurabilityName(info.default_durability)));
  AppendLine(out, "store", absl::StrCat(info.epoch.store_id, ", epoch ", info.epoch.epoch));
  for (const client::LimitInfo& limit : info.limits) {
    AppendLine(out, "limit", absl::StrCat(limit.name, " ", limit.value, " ", limit.unit));
  }
  if (!info.load) return out;
  const auto load = LoadToJson(*info.load);
  for (const auto& [name, value] : load.items()) {
    AppendLine(out, "load", absl::StrCat(name, " ", value.get<uint64_t>()));
  }
  return out;
}

std::string ToText(const client::TensorStatus& tensor) {
  std::string out = absl::StrCat(tensor.name, ": ", tensor.plan, " on ", tensor.backend, " (",
                                 tensor.plan_reason, "), nnz ", tensor.nnz_received, " received, ",
                                 tensor.nnz_result, " in the result");
  if (tensor.measured_seconds > 0) {
    absl::StrAppend(&out, ", reduced in ", FormatSeconds(tensor.measured_seconds));
  }
  if (tensor.predicted_seconds > 0) {
    absl::StrAppend(&out, " (", FormatSeconds(tensor.predicted_seconds), " predicted)");
  }
  return out;
}

std::string ToText(const client::TensorView& tensor) {
  return absl::StrCat(tensor.name, " ",
                      std::string(ValueTypeName(tensor.entries.layout.value_type)), " ",
                      FormatShape(tensor.dense_shape), " sparse_dim=", tensor.sparse_dim,
                      " nnz=", tensor.entries.nnz);
}

std::string ProgressText(const client::RoundInfo& round) {
  const uint64_t goal = round.policy.goal_contributors;
  return goal == 0 ? absl::StrCat(round.contributors)
                   : absl::StrCat(round.contributors, " of ", goal);
}

std::string FormatBytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  auto amount = static_cast<double>(bytes);
  for (; amount >= 1024; ++unit) amount /= 1024;
  return absl::StrFormat("%.*f %s", unit == 0 ? 0 : 1, amount, kUnits[unit]);
}

std::string FormatSeconds(double seconds) {
  if (seconds >= 1) return absl::StrFormat("%.1f s", seconds);
  if (seconds >= 1e-3) return absl::StrFormat("%.1f ms", seconds * 1e3);
  return absl::StrFormat("%.1f us", seconds * 1e6);
}

void Print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void PrintJson(const json& value) { Print(DumpText(value, 2) + "\n"); }
void PrintJsonLine(const json& value) { Print(DumpText(value, -1) + "\n"); }

}  // namespace sparseagg::cli

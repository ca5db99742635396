#include "service/server_info.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/convert.h"
#include "service/config/devices.h"
#include "service/rpc/wire/round_proto.h"
#include "sparse/device_group.h"
#include "sparse/encoding.h"
#include "sparse/failover_backend.h"
#include "sparse/ops/all.h"

namespace sparseagg {
namespace {

absl::Status NotChosen(const std::string& name, const std::vector<BackendCandidate>& candidates) {
  std::string known = "auto";
  std::string reasons;
  for (const BackendCandidate& candidate : candidates) {
    absl::StrAppend(&known, ", ", candidate.name);
    if (!candidate.status.ok()) {
      absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", candidate.name, ": ",
                      candidate.status.message());
    }
    if (candidate.name == name) {
      return MakeError(absl::StatusCode::kUnavailable, "BACKEND_UNAVAILABLE",
                       absl::StrCat("back end \"", name,
                                    "\" cannot be used here: ", candidate.status.message()));
    }
  }
  if (name == "auto") {
    return MakeError(absl::StatusCode::kUnavailable, "BACKEND_UNAVAILABLE",
                     absl::StrCat("no back end can be used here: ", reasons));
  }
  return MakeError(
      absl::StatusCode::kInvalidArgument, "UNKNOWN_BACKEND",
      absl::StrCat("back end \"", name, "\" is not in this build; use one of ", known));
}

using Backends = std::vector<std::unique_ptr<Backend>>;

// On each device, or, where that is only to be described or to take over, on one.
absl::StatusOr<Backends> Make(const BackendFactory& factory, bool each,
                              const BackendOptions& options) {
  if (each && factory.make_each != nullptr) return factory.make_each(options);
  SPARSEAGG_ASSIGN_OR_RETURN(std::unique_ptr<Backend> only, factory.make(options));
  Backends backends;
  backends.push_back(std::move(only));
  return backends;
}

// Each device with its own fallback, so that the loss of one costs the others nothing.
void AddFallback(Backends& devices, const std::shared_ptr<Backend>& second,
                 const FailoverOptions& options) {
  FailoverOptions own = options;
  own.kept_bytes_min /= devices.size();
  for (std::unique_ptr<Backend>& device : devices) {
    device = MakeFailoverBackend(std::move(device), second, own);
  }
}

std::unique_ptr<Backend> Grouped(Backends devices) {
  if (devices.size() == 1) return std::move(devices.front());
  return MakeDeviceGroup(std::move(devices));
}

}  // namespace

absl::StatusOr<BackendChoice> ChooseBackend(
    std::span<const BackendFactory> factories, const ServerConfig& config,
    std::function<void(const absl::Status& fault)> on_loss) {
  BackendOptions options{.threads = config.threads, .memory_bytes = config.backend_memory_bytes};
  SPARSEAGG_ASSIGN_OR_RETURN(options.devices, ParseDevices(config.devices));
  const std::string& name = config.backend;
  BackendChoice choice;
  Backends chosen;  // one for each device
  std::shared_ptr<Backend> second;
  for (const BackendFactory& factory : factories) {
    const bool wanted = chosen.empty() && (name == "auto" || name == factory.name);
    absl::StatusOr<Backends> made = Make(factory, wanted, options);
    if (wanted && absl::IsInvalidArgument(made.status())) return made.status();
    BackendCandidate& candidate = choice.candidates.emplace_back();
    candidate.name = std::string(factory.name);
    candidate.status = made.status();
    if (!made.ok()) continue;
    candidate.info = made->front()->info();
    if (wanted) {
      chosen = *std::move(made);
    } else if (!chosen.empty() && second == nullptr) {
      second = std::move(made->front());
    }
  }
  if (chosen.empty()) return NotChosen(name, choice.candidates);
  const std::string chosen_name = chosen.front()->info().name;
  if (chosen.front()->info().can_fail && second != nullptr) {
    AddFallback(chosen, second, {.on_loss = std::move(on_loss)});
  }
  choice.backend = Grouped(std::move(chosen));
  for (BackendCandidate& candidate : choice.candidates) {
    if (candidate.name == chosen_name) candidate.info = choice.backend->info();
  }
  return choice;
}

v1::ServerInfo MakeServerInfo(const BackendChoice& choice, const ServerConfig& config,
                              const UpdateStore& store, Durability default_durability) {
  v1::ServerInfo info;
  info.set_version(SPARSEAGG_VERSION);
  for (const BackendCandidate& candidate : choice.candidates) {
    v1::BackendInfo& backend = *info.add_backends();
    backend.set_name(candidate.name);
    backend.set_description(candidate.info.description);
    backend.set_available(candidate.status.ok());
    backend.set_unavailable_reason(std::string(candidate.status.message()));
    for (const std::string& plan : candidate.info.plans) backend.add_plans(plan);
    for (const std::string& device : candidate.info.devices) backend.add_devices(device);
    backend.set_selected(candidate.status.ok() &&
                         candidate.info.name == choice.backend->info().name);
  }
  for (const std::string_view op : AllOps::kNames) info.add_operators(std::string(op));
  for (const Encoding& encoding : AllEncodings()) info.add_encodings(std::string(encoding.name));
  for (const std::string_view name : AllValuesEncodings()) {
    info.add_values_encodings(std::string(name));
  }
  for (const ValueType type : kAllValueTypes) info.add_value_types(ToProto(type));
  for (const Setting& setting : Settings()) {
    uint64_t value = 0;
    if (!setting.is_limit || !absl::SimpleAtoi(setting.print(config), &value)) continue;
    v1::Limit& limit = *info.add_limits();
    limit.set_name(std::string(setting.name));
    limit.set_value(value);
    limit.set_unit(std::string(setting.unit));
    limit.set_help(std::string(setting.help));
  }
  *info.mutable_epoch() = ToProto(store.Epoch());
  info.set_default_durability(ToProto(default_durability));
  for (const Durability durability : {Durability::kMemory, Durability::kDurable}) {
    if (store.Supports(durability)) info.add_durabilities(ToProto(durability));
  }
  return info;
}

}  // namespace sparseagg

// The state of the server as JSON, for the status page, `sparseagg top` and scripts.
// docs/operations.md lists the URLs; fields may be added, never changed. Like the log it has names
// and numbers of entries, but no index, no value and no error message, which may quote one.
#ifndef SPARSEAGG_SERVICE_ADMIN_STATUS_JSON_H_
#define SPARSEAGG_SERVICE_ADMIN_STATUS_JSON_H_

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"
#include "service/admin/gauges.h"
#include "service/admin/history.h"
#include "service/admin/metrics.h"
#include "service/admin/refusals.h"
#include "service/engine/engine.h"
#include "service/tasks/tasks.h"

namespace sparseagg {

// Keys stay in the order in which they are written.
using Json = nlohmann::ordered_json;

// Serialises `json`. Invalid UTF-8 is replaced, because requests, paths and settings may have any
// byte.
std::string Dump(const Json& json);

// One setting of the effective configuration.
struct ConfigRow {
  std::string name;
  std::string value;
  std::string source;  // "default", "flag --listen", ...
  std::string unit;
  std::string help;
};

// The server's lifecycle state.
enum class Phase : uint8_t { kStarting, kServing, kStopping };
std::string_view PhaseName(Phase phase);

struct StatusInput {
  std::string version;
  std::string listen;
  std::string data_dir;
  Phase phase = Phase::kStarting;
  std::chrono::system_clock::time_point start_time;
  std::chrono::system_clock::time_point now;
  const Engine* engine = nullptr;  // null while starting
  Tasks* tasks = nullptr;          // null while starting, or without a task service
  const Metrics& metrics;
  const Refusals& refusals;
  const History& history;
  uint64_t history_after = 0;  // samples with a greater number are sent
};

Json StatusJson(const StatusInput& input);

// The newest `limit` rounds, and how many there are.
Json RoundsJson(Engine& engine, size_t limit);

// One round in full.
Json RoundJson(const RoundSnapshot& round);

Json ConfigJson(std::span<const ConfigRow> rows);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ADMIN_STATUS_JSON_H_

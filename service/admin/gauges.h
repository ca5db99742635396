// Metrics that are computed at each scrape: the load of the engine, the process and its disk.
// docs/metrics.md lists them.
#ifndef SPARSEAGG_SERVICE_ADMIN_GAUGES_H_
#define SPARSEAGG_SERVICE_ADMIN_GAUGES_H_

#include <prometheus/metric_family.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "service/engine/limits.h"
#include "service/engine/types.h"
#include "service/tasks/task_limits.h"
#include "service/tasks/task_types.h"

namespace sparseagg {

struct ProcessStats {
  double cpu_seconds = 0;
  uint64_t resident_bytes = 0;
  uint64_t open_files = 0;
  uint64_t open_files_max = 0;
};
// The values of this process, from /proc/self; a value that cannot be read is 0.
ProcessStats ReadProcessStats();

// The free bytes that this process may use on the file system of `directory`; nullopt on an error.
std::optional<uint64_t> FreeBytes(const std::string& directory);

std::vector<prometheus::MetricFamily> EngineGauges(const EngineStats& stats, const Limits& limits);
std::vector<prometheus::MetricFamily> TaskGauges(const TaskStats& stats, const TaskLimits& limits);
// One series for each leaf of a root.
std::vector<prometheus::MetricFamily> LeafGauges(const std::vector<LeafStatus>& leaves);
// One series for each GPU.
std::vector<prometheus::MetricFamily> DeviceGauges(const std::vector<DeviceStats>& devices);
std::vector<prometheus::MetricFamily> ProcessGauges(const ProcessStats& stats,
                                                    double start_time_seconds);

// A family without series.
prometheus::MetricFamily Family(const std::string& name, const std::string& help,
                                prometheus::MetricType type);

// One gauge without labels.
prometheus::MetricFamily Gauge(const std::string& name, const std::string& help, double value);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ADMIN_GAUGES_H_

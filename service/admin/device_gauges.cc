#include <string>
#include <utility>
#include <vector>

#include "service/admin/gauges.h"

namespace sparseagg {
namespace {

// Bytes that went to the devices and back.
prometheus::MetricFamily DeviceTransfers(const std::vector<DeviceStats>& devices) {
  prometheus::MetricFamily family =
      Family("sparseagg_device_transferred_bytes_total", "Bytes on the bus of the GPU",
             prometheus::MetricType::Counter);
  for (const DeviceStats& device : devices) {
    for (const auto& [direction, bytes] : {std::pair{"to_device", device.uploaded_bytes},
                                           std::pair{"to_host", device.downloaded_bytes}}) {
      prometheus::ClientMetric metric;
      metric.label = {{"device", device.device}, {"direction", direction}};
      metric.counter.value = static_cast<double>(bytes);
      family.metric.push_back(std::move(metric));
    }
  }
  return family;
}

}  // namespace

std::vector<prometheus::MetricFamily> DeviceGauges(const std::vector<DeviceStats>& devices) {
  const auto gauge = [&](const std::string& name, const std::string& help,
                         uint64_t (*value)(const DeviceStats&)) {
    prometheus::MetricFamily family = Family(name, help, prometheus::MetricType::Gauge);
    for (const DeviceStats& device : devices) {
      prometheus::ClientMetric& metric = family.metric.emplace_back();
      metric.label = {{"device", device.device}};
      metric.gauge.value = static_cast<double>(value(device));
    }
    return family;
  };
  prometheus::MetricFamily busy =
      Family("sparseagg_device_busy_seconds_total", "Time in which the GPU had a reduction",
             prometheus::MetricType::Counter);
  for (const DeviceStats& device : devices) {
    prometheus::ClientMetric& metric = busy.metric.emplace_back();
    metric.label = {{"device", device.device}};
    metric.counter.value = device.busy_seconds;
  }
  using Stats = const DeviceStats&;
  return {
      gauge("sparseagg_device_lost", "1 if the GPU has failed and is not used any more",
            [](Stats stats) { return uint64_t{stats.lost ? 1u : 0u}; }),
      gauge("sparseagg_device_memory_bytes", "Memory of the GPU in use",
            [](Stats stats) { return stats.memory_bytes; }),
      gauge("sparseagg_device_memory_bytes_max", "Memory of the GPU that may be used",
            [](Stats stats) { return stats.memory_bytes_max; }),
      gauge("sparseagg_device_locked_bytes", "Memory of the host that is locked for transfers",
            [](Stats stats) { return stats.locked_bytes; }),
      DeviceTransfers(devices),
      busy,
      gauge("sparseagg_device_queued_bytes", "Updates that the GPU has not reduced yet",
            [](Stats stats) { return stats.queued_bytes; }),
      gauge("sparseagg_device_waiting_tasks", "Reductions and results that the GPU has not begun",
            [](Stats stats) { return stats.waiting_tasks; }),
  };
}

}  // namespace sparseagg

#include "service/engine/memory/aggregation_bytes.h"

#include <algorithm>

#include "base/cgroup_limits.h"

namespace sparseagg {

uint64_t AggregationBytes(const Limits& limits, const Backend& backend) {
  if (limits.aggregation_bytes_max != 0) return limits.aggregation_bytes_max;
  const BackendInfo& info = backend.info();
  if (!info.can_fail) return info.memory_bytes;
  // The host holds updates until the result exists, and fetched states and results, so a GPU's
  // memory is not the limit. The host's memory is read once, so that the limit stays constant.
  static const uint64_t kHostBytes = AvailableMemoryBytes() / 2;
  const uint64_t devices = std::max<uint64_t>(1, info.devices.size());
  if (info.memory_bytes > kHostBytes / devices) return kHostBytes;
  return info.memory_bytes * devices;
}

}  // namespace sparseagg

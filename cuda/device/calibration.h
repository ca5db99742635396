// The rates that the cost model works with: measured when a back end starts, in less than a second,
// or those that are usual for such a device where the measurement fails or makes no sense. Rates
// decide which plan is taken, never a bit of a result.
#ifndef SPARSEAGG_CUDA_DEVICE_CALIBRATION_H_
#define SPARSEAGG_CUDA_DEVICE_CALIBRATION_H_

#include <string>

#include "absl/status/statusor.h"
#include "cuda/cost_model.h"
#include "cuda/device/probe.h"
#include "cuda/raii/queue.h"
#include "cuda/tuning.h"

namespace sparseagg::gpu {

// Of devices of this generation, by their multiprocessors: from the makers' figures and published
// measurements. Pure.
DeviceRates UsualRates(const GpuInfo& gpu);

// Measures copies both ways and on the device, atomic adds, sorts and launches: the shortest of
// three runs each, by `clock`. FAILED_PRECONDITION names the first rate that is not within a factor
// of 100 of its usual value. Throws CudaError.
absl::StatusOr<DeviceRates> MeasureRates(Queue& queue, const GpuInfo& gpu, const Clock& clock);

// For people: "copy 4.2e12 B/s, bus 5.5e10 and ...".
std::string Describe(const DeviceRates& rates);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_DEVICE_CALIBRATION_H_

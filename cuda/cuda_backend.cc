#include "cuda/cuda_backend.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cuda/aggregator.h"
#include "cuda/cost_model.h"
#include "cuda/device/calibration.h"
#include "cuda/device/gpu.h"
#include "cuda/device/probe.h"
#include "cuda/error.h"
#include "cuda/plan.h"
#include "sparse/ops/all.h"

namespace sparseagg {
namespace {

// Host memory that is locked for staging: a quarter of the device's, which no batch exceeds.
constexpr uint64_t kPinnedShare = 4;

class CudaBackend : public Backend {
 public:
  CudaBackend(const GpuInfo& gpu, uint64_t budget_bytes, const gpu::Tuning& tuning)
      : gpu_(std::make_unique<gpu::Gpu>(0, budget_bytes, budget_bytes / kPinnedShare, tuning)) {
    info_.name = "cuda";
    info_.description = absl::StrCat(gpu.name, ", compute capability ", gpu.compute_major, ".",
                                     gpu.compute_minor, ", ", budget_bytes >> 20, " MiB");
    info_.memory_bytes = budget_bytes;
    info_.can_fail = true;
    for (const gpu::DevicePlan& plan : gpu::DevicePlans()) {
      info_.plans.emplace_back(plan.name);
    }
    info_.cost = [rates = Rates(gpu)](const BackendInfo&, std::string_view plan,
                                      const ReduceSpec& spec, const Workload& workload) {
      return gpu::CudaCost(rates, plan, spec, workload);
    };
  }

  ~CudaBackend() override {
    // The memory that a hanging thread uses must stay as long as the process.
    if (gpu_->Hangs()) gpu_.release();  // NOLINT(bugprone-unused-return-value)
  }

  const BackendInfo& info() const override { return info_; }
  absl::Status health() const override { return gpu_->health(); }
  std::optional<DeviceStats> device_stats() const override { return gpu_->stats(); }

  absl::StatusOr<std::unique_ptr<Aggregator>> NewAggregator(const Plan& plan) override {
    if (!AllOps::With(plan.spec.op, [](auto) {})) {
      return MakeError(absl::StatusCode::kInvalidArgument, "UNKNOWN_OPERATOR",
                       absl::StrCat("there is no operator \"", plan.spec.op, "\""));
    }
    SPARSEAGG_RETURN_IF_ERROR(gpu_->health());
    return std::make_unique<gpu::CudaAggregator>(*gpu_, info_, plan);
  }

 private:
  // Measured, or the usual ones. Notes which.
  gpu::DeviceRates Rates(const GpuInfo& gpu) {
    if (!gpu_->tuning().calibrate) return gpu::UsualRates(gpu);
    const auto result = std::make_shared<absl::StatusOr<gpu::DeviceRates>>();
    const absl::Status run =
        gpu_->Await(gpu_->thread().Post(gpu::DeviceThread::Task([&device = *gpu_, gpu, result] {
          return device.Run("calibration", [&] {
            *result = gpu::MeasureRates(device.context().queue, gpu, device.tuning().clock);
          });
        })));
    const absl::Status status = run.ok() ? result->status() : run;
    const gpu::DeviceRates rates = status.ok() ? **result : gpu::UsualRates(gpu);
    info_.notes.push_back(absl::StrCat(
        status.ok() ? "rates measured" : "rates of such a device, since measuring them failed",
        status.ok() ? "" : absl::StrCat(" (", status.message(), ")"), ": ", gpu::Describe(rates)));
    return rates;
  }

  BackendInfo info_;
  std::unique_ptr<gpu::Gpu> gpu_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const BackendOptions& options) {
  return MakeCudaBackend(options, gpu::Tuning());
}

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const BackendOptions& options,
                                                         const gpu::Tuning& tuning) {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<GpuInfo> gpus, ProbeGpus());
  const uint64_t most = gpus[0].memory_bytes;
  const uint64_t budget =
      options.memory_bytes != 0 ? std::min(options.memory_bytes, most) : most / 4 * 3;
  try {
    auto backend = std::make_unique<CudaBackend>(gpus[0], budget, tuning);
    SPARSEAGG_RETURN_IF_ERROR(backend->health());
    return backend;
  } catch (const gpu::CudaError& error) {
    return MakeError(absl::StatusCode::kUnavailable, "NO_GPU",
                     absl::StrCat("no usable GPU: ", error.what()));
  }
}

}  // namespace sparseagg

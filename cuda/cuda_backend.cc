#include "cuda/cuda_backend.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cuda/aggregator.h"
#include "cuda/cost_model.h"
#include "cuda/device/calibration.h"
#include "cuda/device/gpu.h"
#include "cuda/device/probe.h"
#include "cuda/error.h"
#include "cuda/memory/staging.h"
#include "cuda/plan.h"
#include "sparse/ops/all.h"

namespace sparseagg {
namespace {

// Host memory that is locked for staging: a quarter of the device's, which no batch exceeds.
constexpr uint64_t kPinnedShare = 4;

// The GPUs of the back ends that were made together.
class Gpus {
 public:
  explicit Gpus(uint64_t pinned_bytes)
      : pinned_bytes_(pinned_bytes), staging_(std::make_shared<gpu::PinnedStaging>(pinned_bytes)) {}
  ~Gpus() {
    // The memory that a hanging thread uses must stay as long as the process. That may be memory of
    // any of them.
    const bool hangs =
        std::any_of(gpus_.begin(), gpus_.end(), [](const auto& gpu) { return gpu->Hangs(); });
    if (!hangs) return;
    for (auto& gpu : gpus_) gpu.release();  // NOLINT(bugprone-unused-return-value)
  }
  Gpus(const Gpus&) = delete;
  Gpus& operator=(const Gpus&) = delete;

  gpu::Gpu& Add(const GpuInfo& info, uint64_t budget_bytes, const gpu::Tuning& tuning) {
    gpus_.push_back(
        std::make_unique<gpu::Gpu>(info.ordinal, budget_bytes, pinned_bytes_, tuning, staging_));
    gpu::Gpu& added = *gpus_.back();
    added.CountsStaging(gpus_.size() == 1);
    for (size_t g = 0; g + 1 < gpus_.size(); ++g) {
      gpus_[g]->device().pool().AllowAccess(info.ordinal);
      added.device().pool().AllowAccess(gpus_[g]->device().ordinal());
    }
    return added;
  }

 private:
  const uint64_t pinned_bytes_;
  const std::shared_ptr<gpu::PinnedStaging> staging_;
  std::vector<std::unique_ptr<gpu::Gpu>> gpus_;
};

class CudaBackend : public Backend {
 public:
  CudaBackend(std::shared_ptr<Gpus> gpus, const GpuInfo& info, uint64_t budget_bytes,
              const gpu::Tuning& tuning)
      : gpus_(std::move(gpus)), gpu_(&gpus_->Add(info, budget_bytes, tuning)) {
    info_.name = "cuda";
    info_.description = absl::StrCat(info.name, ", compute capability ", info.compute_major, ".",
                                     info.compute_minor, ", ", budget_bytes >> 20, " MiB");
    info_.devices = {absl::StrCat(info.ordinal, ": ", info.name)};
    info_.device_batch_bytes = gpu_->batch_bytes();
    info_.memory_bytes = budget_bytes;
    info_.can_fail = true;
    for (const gpu::DevicePlan& plan : gpu::DevicePlans()) {
      info_.plans.emplace_back(plan.name);
    }
    info_.cost = [rates = Rates(info)](const BackendInfo&, std::string_view plan,
                                       const ReduceSpec& spec, const Workload& workload) {
      return gpu::CudaCost(rates, plan, spec, workload);
    };
  }

  const BackendInfo& info() const override { return info_; }
  absl::Status health() const override { return gpu_->health(); }
  std::vector<DeviceStats> device_stats() const override { return {gpu_->stats()}; }

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
        "GPU ", gpu.ordinal, ": ",
        status.ok() ? "rates measured" : "rates of such a device, since measuring them failed",
        status.ok() ? "" : absl::StrCat(" (", status.message(), ")"), ": ", gpu::Describe(rates)));
    return rates;
  }

  const std::shared_ptr<Gpus> gpus_;
  gpu::Gpu* const gpu_;
  BackendInfo info_;
};

// INVALID_ARGUMENT (UNKNOWN_DEVICE).
absl::StatusOr<std::vector<GpuInfo>> Select(const std::vector<GpuInfo>& gpus,
                                            const DeviceSelection& selection) {
  if (selection.all) return gpus;
  std::vector<GpuInfo> selected;
  for (const uint32_t number : selection.numbers) {
    const auto found = std::find_if(gpus.begin(), gpus.end(), [number](const GpuInfo& gpu) {
      return gpu.ordinal == static_cast<int>(number);
    });
    if (found == gpus.end()) {
      return MakeError(absl::StatusCode::kInvalidArgument, "UNKNOWN_DEVICE",
                       absl::StrCat("there is no usable GPU ", number, "; this machine has ",
                                    gpus.size(), ", numbered from 0"));
    }
    selected.push_back(*found);
  }
  return selected;
}

uint64_t BudgetOf(const GpuInfo& gpu, const BackendOptions& options) {
  const uint64_t most = gpu.memory_bytes;
  return options.memory_bytes != 0 ? std::min(options.memory_bytes, most) : most / 4 * 3;
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Backend>>> MakeCudaBackends(
    const BackendOptions& options) {
  return MakeCudaBackends(options, gpu::Tuning());
}

absl::StatusOr<std::vector<std::unique_ptr<Backend>>> MakeCudaBackends(
    const BackendOptions& options, const gpu::Tuning& tuning) {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<GpuInfo> all, ProbeGpus());
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<GpuInfo> selected, Select(all, options.devices));
  uint64_t budget_bytes = 0;
  for (const GpuInfo& gpu : selected) budget_bytes += BudgetOf(gpu, options);
  try {
    const auto gpus = std::make_shared<Gpus>(budget_bytes / kPinnedShare);
    std::vector<std::unique_ptr<Backend>> backends;
    for (const GpuInfo& gpu : selected) {
      backends.push_back(std::make_unique<CudaBackend>(gpus, gpu, BudgetOf(gpu, options), tuning));
      SPARSEAGG_RETURN_IF_ERROR(backends.back()->health());
    }
    return backends;
  } catch (const gpu::CudaError& error) {
    return MakeError(absl::StatusCode::kUnavailable, "NO_GPU",
                     absl::StrCat("no usable GPU: ", error.what()));
  }
}

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const BackendOptions& options) {
  return MakeCudaBackend(options, gpu::Tuning());
}

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const BackendOptions& options,
                                                         const gpu::Tuning& tuning) {
  BackendOptions one = options;
  const std::vector<uint32_t>& numbers = options.devices.numbers;
  one.devices = {.all = false, .numbers = {numbers.empty() ? 0 : numbers.front()}};
  SPARSEAGG_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Backend>> backends,
                             MakeCudaBackends(one, tuning));
  return std::move(backends.front());
}

}  // namespace sparseagg

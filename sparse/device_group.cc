#include "sparse/device_group.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "sparse/failover_backend.h"

namespace sparseagg {
namespace {

uint64_t QueuedBytes(const Backend& device) {
  uint64_t bytes = 0;
  for (const DeviceStats& stats : device.device_stats()) bytes += stats.queued_bytes;
  return bytes;
}

// One device of an aggregator.
struct Share {
  const Backend* device;
  std::unique_ptr<Aggregator> aggregator;
  bool used = false;  // whether it has an update or a partial aggregate
};

class GroupAggregator : public Aggregator {
 public:
  // `shares`: at least one.
  GroupAggregator(ReduceSpec spec, uint64_t batch_bytes, std::vector<Share> shares)
      : spec_(std::move(spec)), batch_bytes_(batch_bytes), shares_(std::move(shares)) {}

  absl::StatusOr<StagedUpdate> Stage(uint64_t nnz) const override {
    for (const Share& share : shares_) {
      if (share.device->health().ok()) return share.aggregator->Stage(nnz);
    }
    return shares_.front().aggregator->Stage(nnz);
  }

  absl::Status Accumulate(StagedUpdate update, float weight) override {
    const uint64_t nnz = update.entries.nnz;
    // Each device checks its own sum; this is the sum of all.
    SPARSEAGG_RETURN_IF_ERROR(CheckAddends(spec_, addends_, nnz));
    SPARSEAGG_RETURN_IF_ERROR(ChooseShare());
    given_bytes_ += update.bytes;
    SPARSEAGG_RETURN_IF_ERROR(current_->aggregator->Accumulate(std::move(update), weight));
    addends_ += nnz;
    return absl::OkStatus();
  }

  absl::Status Merge(const Partial& partial) override {
    Partial own;
    own.spec = spec_;
    own.addends = addends_;
    SPARSEAGG_RETURN_IF_ERROR(CheckMergeable(own, partial));
    SPARSEAGG_RETURN_IF_ERROR(ChooseShare());
    SPARSEAGG_RETURN_IF_ERROR(current_->aggregator->Merge(partial));
    addends_ += partial.addends;
    return absl::OkStatus();
  }

  absl::StatusOr<Partial> Snapshot() override {
    SPARSEAGG_RETURN_IF_ERROR(FlushAll());
    Share& first = FullestShare();
    SPARSEAGG_ASSIGN_OR_RETURN(Partial all, first.aggregator->Snapshot());
    for (const Share& share : shares_) {
      if (!share.used || &share == &first) continue;
      SPARSEAGG_ASSIGN_OR_RETURN(Partial state, share.aggregator->Snapshot());
      all = MergePartials(std::move(all), std::move(state));
    }
    return all;
  }

  uint64_t memory_bytes() const override {
    uint64_t bytes = 0;
    for (const Share& share : shares_) bytes += share.aggregator->memory_bytes();
    return bytes;
  }

  PlanReport plan_report() const override {
    PlanReport report = shares_[reporter_].aggregator->plan_report();
    size_t used = 0;
    for (size_t s = 0; s < shares_.size(); ++s) {
      if (!shares_[s].used) continue;
      ++used;
      if (s == reporter_) continue;
      const PlanReport other = shares_[s].aggregator->plan_report();
      report.predicted_seconds += other.predicted_seconds;
      report.seconds += other.seconds;
      // Otherwise it is the same choice for another part of the updates.
      if (other.plan != report.plan) {
        absl::StrAppend(&report.reason, "; also ", other.plan, ": ", other.reason);
      }
    }
    if (used > 1) absl::StrAppend(&report.reason, "; on ", used, " devices");
    return report;
  }

  absl::StatusOr<Aggregate> Report() && override {
    SPARSEAGG_RETURN_IF_ERROR(FlushAll());
    Aggregator& target = *FullestShare().aggregator;
    for (const Share& share : shares_) {
      if (!share.used || share.aggregator.get() == &target) continue;
      SPARSEAGG_RETURN_IF_ERROR(Gather(*share.aggregator, target));
    }
    return std::move(target).Report();
  }

 private:
  // The device for the next update: the same for a batch, then the one with the fewest queued
  // bytes; of several the next in turn, so that their memory fills evenly. A lost one where there
  // is no other.
  absl::Status ChooseShare() {
    const bool healthy = current_ != nullptr && current_->device->health().ok();
    if (healthy && given_bytes_ < batch_bytes_) return absl::OkStatus();
    const size_t first = current_ == nullptr ? 0 : static_cast<size_t>(current_ - &shares_[0]) + 1;
    Share* next = nullptr;
    uint64_t next_bytes = 0;
    for (size_t s = 0; s < shares_.size(); ++s) {
      Share& share = shares_[(first + s) % shares_.size()];
      if (!share.device->health().ok()) continue;
      const uint64_t bytes = QueuedBytes(*share.device);
      if (next != nullptr && bytes >= next_bytes) continue;
      next = &share;
      next_bytes = bytes;
    }
    if (next == nullptr) next = current_ != nullptr ? current_ : &shares_.front();
    given_bytes_ = 0;
    if (current_ == nullptr) reporter_ = static_cast<size_t>(next - &shares_[0]);
    Share* const before = std::exchange(current_, next);
    current_->used = true;
    // Its batch is full, and no further update of this tensor may come to start it.
    return before == nullptr || before == next ? absl::OkStatus() : before->aggregator->Flush();
  }

  // Starts what every device still has to reduce, so that they do it at the same time.
  absl::Status FlushAll() {
    const auto used = [](const Share& share) { return share.used; };
    if (std::count_if(shares_.begin(), shares_.end(), used) < 2) return absl::OkStatus();
    for (const Share& share : shares_) {
      if (share.used) SPARSEAGG_RETURN_IF_ERROR(share.aggregator->Flush());
    }
    return absl::OkStatus();
  }

  // Where the states meet: on a device that works, and holds the most of those.
  Share& FullestShare() {
    Share* fullest = &shares_.front();
    const auto rank = [](const Share& share) {
      const uint64_t bytes = share.used ? share.aggregator->memory_bytes() : 0;
      return std::tuple(share.used, share.device->health().ok(), bytes);
    };
    for (Share& share : shares_) {
      if (rank(share) > rank(*fullest)) fullest = &share;
    }
    return *fullest;
  }

  // Merges a state into the target's: from device to device, or else through the host, where each
  // side notices its own fault and goes on elsewhere.
  static absl::Status Gather(Aggregator& from, Aggregator& target) {
    const absl::Status status = target.Absorb(from);
    if (status.ok() || !IsProcessorFault(status)) return status;
    return target.Aggregator::Absorb(from);
  }

  const ReduceSpec spec_;
  const uint64_t batch_bytes_;
  std::vector<Share> shares_;
  Share* current_ = nullptr;
  size_t reporter_ = 0;       // the first that was used
  uint64_t given_bytes_ = 0;  // to the current one since it was chosen
  uint64_t addends_ = 0;
};

class DeviceGroup : public Backend {
 public:
  explicit DeviceGroup(std::vector<std::unique_ptr<Backend>> devices)
      : devices_(std::move(devices)), info_(devices_.front()->info()) {
    std::vector<std::string> descriptions;
    info_.devices.clear();
    info_.notes.clear();
    for (const auto& device : devices_) {
      const BackendInfo& info = device->info();
      if (descriptions.empty() || descriptions.back() != info.description) {
        descriptions.push_back(info.description);
      }
      info_.memory_bytes = std::min(info_.memory_bytes, info.memory_bytes);
      info_.device_batch_bytes = std::min(info_.device_batch_bytes, info.device_batch_bytes);
      info_.devices.insert(info_.devices.end(), info.devices.begin(), info.devices.end());
      info_.notes.insert(info_.notes.end(), info.notes.begin(), info.notes.end());
    }
    info_.description =
        absl::StrCat(devices_.size(), " devices: ", absl::StrJoin(descriptions, "; "));
  }

  const BackendInfo& info() const override { return info_; }

  absl::Status health() const override {
    for (const auto& device : devices_) SPARSEAGG_RETURN_IF_ERROR(device->health());
    return absl::OkStatus();
  }

  std::vector<DeviceStats> device_stats() const override {
    std::vector<DeviceStats> all;
    for (const auto& device : devices_) {
      for (DeviceStats& stats : device->device_stats()) all.push_back(std::move(stats));
    }
    return all;
  }

  absl::StatusOr<std::unique_ptr<Aggregator>> NewAggregator(const Plan& plan) override {
    Plan own = plan;  // of one device
    own.workload.contributors = (plan.workload.contributors + plan.devices - 1) / plan.devices;
    own.devices = 1;
    own.window = std::make_shared<SharedWindow>();
    std::vector<Share> shares;
    for (const auto& device : devices_) {
      if (!device->health().ok()) continue;
      SPARSEAGG_ASSIGN_OR_RETURN(std::unique_ptr<Aggregator> aggregator,
                                 device->NewAggregator(own));
      shares.push_back({device.get(), std::move(aggregator)});
    }
    if (shares.empty()) {
      SPARSEAGG_ASSIGN_OR_RETURN(std::unique_ptr<Aggregator> aggregator,
                                 devices_.front()->NewAggregator(own));
      shares.push_back({devices_.front().get(), std::move(aggregator)});
    }
    return std::make_unique<GroupAggregator>(plan.spec, info_.device_batch_bytes,
                                             std::move(shares));
  }

 private:
  const std::vector<std::unique_ptr<Backend>> devices_;
  BackendInfo info_;
};

}  // namespace

std::unique_ptr<Backend> MakeDeviceGroup(std::vector<std::unique_ptr<Backend>> devices) {
  return std::make_unique<DeviceGroup>(std::move(devices));
}

}  // namespace sparseagg

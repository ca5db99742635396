// An engine that another one does the work of. Tests derive from it and override what they are
// about.
#ifndef SPARSEAGG_TESTS_SERVICE_FORWARDING_ENGINE_H_
#define SPARSEAGG_TESTS_SERVICE_FORWARDING_ENGINE_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "service/engine/engine.h"

namespace sparseagg::testing {

class ForwardingEngine : public Engine {
 public:
  explicit ForwardingEngine(Engine& engine) : engine_(engine) {}

  absl::StatusOr<RoundSnapshot> CreateRound(const CreateRoundArgs& args) override {
    return engine_.CreateRound(args);
  }
  absl::StatusOr<RoundSnapshot> GetRound(std::string_view name) override {
    return engine_.GetRound(name);
  }
  std::vector<RoundSnapshot> ListRounds(std::string_view after, size_t limit) override {
    return engine_.ListRounds(after, limit);
  }
  absl::StatusOr<RoundSnapshot> SealRound(std::string_view name) override {
    return engine_.SealRound(name);
  }
  absl::StatusOr<RoundSnapshot> AbortRound(std::string_view name) override {
    return engine_.AbortRound(name);
  }
  absl::Status DeleteRound(std::string_view name) override { return engine_.DeleteRound(name); }
  absl::StatusOr<RoundSnapshot> FailRound(std::string_view name,
                                          const std::string& failure) override {
    return engine_.FailRound(name, failure);
  }
  absl::Status WithdrawRound(std::string_view name) override { return engine_.WithdrawRound(name); }
  absl::StatusOr<RoundSnapshot> SealDivided(std::string_view name,
                                            const DividedResult& divided) override {
    return engine_.SealDivided(name, divided);
  }
  absl::StatusOr<WatchHandle> Watch(
      std::string_view name, WatchScope what,
      std::function<void(const std::optional<RoundSnapshot>&)> on_change) override {
    return engine_.Watch(name, what, std::move(on_change));
  }
  absl::StatusOr<Receipt> Submit(UpdateHeader header,
                                 const std::vector<EncodedTensor>& tensors) override {
    return engine_.Submit(std::move(header), tensors);
  }
  bool WaitsForDisk(std::string_view name) override { return engine_.WaitsForDisk(name); }
  absl::StatusOr<std::shared_ptr<Upload>> BeginUpload(const UpdateHeader& header,
                                                      std::vector<EncodedHeader> tensors) override {
    return engine_.BeginUpload(header, std::move(tensors));
  }
  absl::StatusOr<std::shared_ptr<const PublishedResult>> Result(std::string_view name) override {
    return engine_.Result(name);
  }
  absl::StatusOr<Verification> VerifyRound(std::string_view name,
                                           std::function<bool()> cancelled) override {
    return engine_.VerifyRound(name, std::move(cancelled));
  }
  absl::StatusOr<std::unique_ptr<StatelessReduction>> NewReduction(
      const RoundSpec& spec, std::string_view tenant) override {
    return engine_.NewReduction(spec, tenant);
  }
  const BackendInfo& backend_info() const override { return engine_.backend_info(); }
  const Limits& limits() const override { return engine_.limits(); }
  EngineStats Stats() const override { return engine_.Stats(); }
  absl::Status Recover() override { return engine_.Recover(); }
  bool Drain(std::chrono::steady_clock::time_point deadline) override {
    return engine_.Drain(deadline);
  }

 private:
  Engine& engine_;
};

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SERVICE_FORWARDING_ENGINE_H_

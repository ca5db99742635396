#include "service/engine/tenant_engines.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "service/engine/names.h"

namespace sparseagg {
namespace {

class TenantEngine : public Engine {
 public:
  TenantEngine(Engine& engine, std::string tenant) : engine_(engine), tenant_(std::move(tenant)) {}

  absl::StatusOr<RoundSnapshot> CreateRound(const CreateRoundArgs& args) override {
    CreateRoundArgs own = args;
    own.tenant = tenant_;
    return engine_.CreateRound(own);
  }
  absl::StatusOr<RoundSnapshot> GetRound(std::string_view name) override {
    SPARSEAGG_ASSIGN_OR_RETURN(const std::string own, Own(name));
    return engine_.GetRound(own);
  }
  std::vector<RoundSnapshot> ListRounds(std::string_view after, size_t limit) override {
    // A tenant's names are adjacent.
    auto rounds = engine_.ListRounds(QualifiedName(tenant_, after), limit);
    std::erase_if(rounds, [this](const RoundSnapshot& round) { return round.tenant != tenant_; });
    return rounds;
  }
  absl::StatusOr<RoundSnapshot> SealRound(std::string_view name) override {
    SPARSEAGG_ASSIGN_OR_RETURN(const std::string own, Own(name));
    return engine_.SealRound(own);
  }
  absl::StatusOr<RoundSnapshot> AbortRound(std::string_view name) override {
    SPARSEAGG_ASSIGN_OR_RETURN(const std::string own, Own(name));
    return engine_.AbortRound(own);
  }
  absl::Status DeleteRound(std::string_view name) override {
    SPARSEAGG_ASSIGN_OR_RETURN(const std::string own, Own(name));
    return engine_.DeleteRound(own);
  }
  absl::StatusOr<RoundSnapshot> FailRound(std::string_view name,
                                          const std::string& failure) override {
    SPARSEAGG_ASSIGN_OR_RETURN(const std::string own, Own(name));
    return engine_.FailRound(own, failure);
  }
  absl::Status WithdrawRound(std::string_view name) override {
    SPARSEAGG_ASSIGN_OR_RETURN(const std::string own, Own(name));
    return engine_.WithdrawRound(own);
  }
  absl::StatusOr<RoundSnapshot> SealDivided(std::string_view name,
                                            const DividedResult& divided) override {
    SPARSEAGG_ASSIGN_OR_RETURN(const std::string own, Own(name));
    return engine_.SealDivided(own, divided);
  }
  absl::StatusOr<WatchHandle> Watch(
      std::string_view name, WatchScope what,
      std::function<void(const std::optional<RoundSnapshot>&)> on_change) override {
    SPARSEAGG_ASSIGN_OR_RETURN(const std::string own, Own(name));
    return engine_.Watch(own, what, std::move(on_change));
  }

  absl::StatusOr<Receipt> Submit(UpdateHeader header,
                                 const std::vector<EncodedTensor>& tensors) override {
    SPARSEAGG_ASSIGN_OR_RETURN(header.round, Own(header.round));
    return engine_.Submit(std::move(header), tensors);
  }
  bool WaitsForDisk(std::string_view name) override {
    const auto own = Own(name);
    return own.ok() && engine_.WaitsForDisk(*own);
  }
  absl::StatusOr<std::shared_ptr<Upload>> BeginUpload(const UpdateHeader& header,
                                                      std::vector<EncodedHeader> tensors) override {
    UpdateHeader own = header;
    SPARSEAGG_ASSIGN_OR_RETURN(own.round, Own(header.round));
    return engine_.BeginUpload(own, std::move(tensors));
  }

  absl::StatusOr<std::shared_ptr<const PublishedResult>> Result(std::string_view name) override {
    SPARSEAGG_ASSIGN_OR_RETURN(const std::string own, Own(name));
    return engine_.Result(own);
  }
  absl::StatusOr<Verification> VerifyRound(std::string_view name,
                                           std::function<bool()> cancelled) override {
    SPARSEAGG_ASSIGN_OR_RETURN(const std::string own, Own(name));
    return engine_.VerifyRound(own, std::move(cancelled));
  }
  absl::StatusOr<std::unique_ptr<StatelessReduction>> NewReduction(
      const RoundSpec& spec, std::string_view /*tenant*/) override {
    return engine_.NewReduction(spec, tenant_);
  }

  const BackendInfo& backend_info() const override { return engine_.backend_info(); }
  const Limits& limits() const override { return engine_.limits(); }
  EngineStats Stats() const override { return engine_.Stats(); }
  absl::Status Recover() override { return engine_.Recover(); }
  bool Drain(std::chrono::steady_clock::time_point deadline) override {
    return engine_.Drain(deadline);
  }

 private:
  // Returns the qualified name. A name that is qualified already is invalid here.
  absl::StatusOr<std::string> Own(std::string_view name) const {
    SPARSEAGG_RETURN_IF_ERROR(ValidateRoundName(name));
    return QualifiedName(tenant_, name);
  }

  Engine& engine_;
  const std::string tenant_;
};

}  // namespace

Engine& TenantEngines::Of(std::string_view tenant) {
  const std::lock_guard lock(mutex_);
  const auto found = by_tenant_.find(tenant);
  if (found != by_tenant_.end()) return *found->second;
  std::string name(tenant);
  auto made = std::make_unique<TenantEngine>(engine_, name);
  return *by_tenant_.emplace(std::move(name), std::move(made)).first->second;
}

}  // namespace sparseagg

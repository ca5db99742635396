// The engine of a server that may have leaves: rounds are opened and sealed as tree_rounds.h says,
// everything else is the engine's. One thread for each leaf asks it, so that a leaf that is silent
// delays no other, and a few others receive its partial aggregates, so that a long transfer delays
// no other round. A leaf that may own rows has a thread for each of its peers, from which it takes
// them. A server without leaves and peers has no threads, and its calls are the engine's.
#ifndef SPARSEAGG_SERVICE_TREE_TREE_ENGINE_H_
#define SPARSEAGG_SERVICE_TREE_TREE_ENGINE_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "service/engine/engine.h"
#include "service/tree/owners/owned_parts.h"
#include "service/tree/tree_rounds.h"

namespace sparseagg {

// Thread-safe.
class TreeEngine : public Engine {
 public:
  // Takes what `engine` recovered. The arguments of TreeRounds and of OwnedParts.
  static absl::StatusOr<std::unique_ptr<TreeEngine>> Start(TreeOptions options, OwnerOptions owner,
                                                           Engine& engine, const UpdateStore& store,
                                                           TaskRowStore* rows);
  ~TreeEngine() override { Stop(); }

  absl::StatusOr<RoundSnapshot> CreateRound(const CreateRoundArgs& args) override;
  absl::StatusOr<RoundSnapshot> GetRound(std::string_view name) override;
  std::vector<RoundSnapshot> ListRounds(std::string_view after, size_t limit) override;
  absl::StatusOr<RoundSnapshot> SealRound(std::string_view name) override;
  absl::StatusOr<RoundSnapshot> AbortRound(std::string_view name) override;
  absl::Status DeleteRound(std::string_view name) override;
  absl::StatusOr<RoundSnapshot> FailRound(std::string_view name,
                                          const std::string& failure) override;
  absl::Status WithdrawRound(std::string_view name) override;
  absl::StatusOr<WatchHandle> Watch(
      std::string_view name, WatchScope what,
      std::function<void(const std::optional<RoundSnapshot>&)> on_change) override;
  EngineStats Stats() const override;
  bool Drain(std::chrono::steady_clock::time_point deadline) override;

  absl::StatusOr<Receipt> Submit(UpdateHeader header,
                                 const std::vector<EncodedTensor>& tensors) override;
  bool WaitsForDisk(std::string_view name) override {
    return rounds_.Has(name) || engine_.WaitsForDisk(name);
  }
  absl::StatusOr<std::shared_ptr<Upload>> BeginUpload(const UpdateHeader& header,
                                                      std::vector<EncodedHeader> tensors) override;
  absl::StatusOr<RoundSnapshot> SealDivided(std::string_view name,
                                            const DividedResult& divided) override {
    return engine_.SealDivided(name, divided);
  }
  absl::StatusOr<std::shared_ptr<const PublishedResult>> Result(std::string_view name) override {
    return rounds_.Result(name);
  }
  absl::StatusOr<Verification> VerifyRound(std::string_view name,
                                           std::function<bool()> cancelled) override {
    return rounds_.Verify(name, cancelled);
  }
  absl::StatusOr<std::unique_ptr<StatelessReduction>> NewReduction(
      const RoundSpec& spec, std::string_view tenant) override {
    return engine_.NewReduction(spec, tenant);
  }
  const BackendInfo& backend_info() const override { return engine_.backend_info(); }
  const Limits& limits() const override { return engine_.limits(); }
  absl::Status Recover() override { return engine_.Recover(); }

 private:
  TreeEngine(TreeOptions options, OwnerOptions owner, Engine& engine, const UpdateStore& store,
             TaskRowStore* rows)
      : engine_(engine),
        rounds_(WithWake(std::move(options)), engine, store, rows),
        parts_(std::move(owner), engine, store) {}
  TreeOptions WithWake(TreeOptions options) {
    options.on_work = [this] { Wake(); };
    return options;
  }

  void StartThreads();
  // Runs `work` until Stop(): at the time that it returns, and after Wake().
  void Loop(const std::function<Backoff::Time()>& work);
  void Wake();
  void Stop();

  Engine& engine_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  uint64_t changes_ = 0;
  TreeRounds rounds_;  // behind what Wake() uses
  OwnedParts parts_;
  std::vector<std::thread> threads_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TREE_TREE_ENGINE_H_

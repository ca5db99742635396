#include "service/tree/tree_engine.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace sparseagg {
namespace {

// Transfers beside each other: of a leaf, and of all if each leaf has more than one.
constexpr size_t kTransfersOfLeaf = 4;
constexpr size_t kTransfers = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<TreeEngine>> TreeEngine::Start(TreeOptions options,
                                                              OwnerOptions owner, Engine& engine,
                                                              const UpdateStore& store,
                                                              TaskRowStore* rows) {
  std::unique_ptr<TreeEngine> tree(
      new TreeEngine(std::move(options), std::move(owner), engine, store, rows));
  SPARSEAGG_RETURN_IF_ERROR(tree->rounds_.Recover());
  tree->StartThreads();
  return tree;
}

absl::StatusOr<RoundSnapshot> TreeEngine::CreateRound(const CreateRoundArgs& args) {
  SPARSEAGG_RETURN_IF_ERROR(parts_.CheckTree(args.spec.tree));
  auto created = rounds_.Create(args);
  if (created.ok() && created->spec.tree.part.has_value()) {
    parts_.Wake();
    Wake();
  }
  return created;
}

absl::StatusOr<RoundSnapshot> TreeEngine::GetRound(std::string_view name) {
  SPARSEAGG_ASSIGN_OR_RETURN(RoundSnapshot round, engine_.GetRound(name));
  return rounds_.Shown(std::move(round));
}

std::vector<RoundSnapshot> TreeEngine::ListRounds(std::string_view after, size_t limit) {
  std::vector<RoundSnapshot> rounds = engine_.ListRounds(after, limit);
  if (!rounds_.has_leaves()) return rounds;
  for (RoundSnapshot& round : rounds) round = rounds_.Shown(std::move(round));
  return rounds;
}

absl::StatusOr<RoundSnapshot> TreeEngine::SealRound(std::string_view name) {
  SPARSEAGG_ASSIGN_OR_RETURN(RoundSnapshot sealed, rounds_.Seal(name));
  return rounds_.Shown(std::move(sealed));
}

absl::StatusOr<RoundSnapshot> TreeEngine::AbortRound(std::string_view name) {
  auto aborted = engine_.AbortRound(name);
  rounds_.Changed(name);
  return aborted;
}

absl::Status TreeEngine::DeleteRound(std::string_view name) {
  absl::Status deleted = engine_.DeleteRound(name);
  rounds_.Changed(name);
  return deleted;
}

absl::StatusOr<RoundSnapshot> TreeEngine::FailRound(std::string_view name,
                                                    const std::string& failure) {
  auto failed = engine_.FailRound(name, failure);
  rounds_.Changed(name);
  return failed;
}

absl::Status TreeEngine::WithdrawRound(std::string_view name) {
  absl::Status withdrawn = engine_.WithdrawRound(name);
  rounds_.Changed(name);
  return withdrawn;
}

absl::StatusOr<WatchHandle> TreeEngine::Watch(
    std::string_view name, WatchScope what,
    std::function<void(const std::optional<RoundSnapshot>&)> on_change) {
  return engine_.Watch(
      name, what,
      [this, on_change = std::move(on_change)](const std::optional<RoundSnapshot>& round) {
        if (!round.has_value() || !round->spec.tree.is_root()) return on_change(round);
        on_change(rounds_.Shown(*round));
      });
}

absl::StatusOr<Receipt> TreeEngine::Submit(UpdateHeader header,
                                           const std::vector<EncodedTensor>& tensors) {
  auto receipt = engine_.Submit(std::move(header), tensors);
  if (!receipt.ok()) return rounds_.WithAddress(receipt.status());
  return receipt;
}

absl::StatusOr<std::shared_ptr<Upload>> TreeEngine::BeginUpload(
    const UpdateHeader& header, std::vector<EncodedHeader> tensors) {
  auto upload = engine_.BeginUpload(header, std::move(tensors));
  if (!upload.ok()) return rounds_.WithAddress(upload.status());
  return upload;
}

EngineStats TreeEngine::Stats() const {
  EngineStats stats = engine_.Stats();
  if (rounds_.has_leaves()) stats.leaves = rounds_.Leaves();
  return stats;
}

bool TreeEngine::Drain(std::chrono::steady_clock::time_point deadline) {
  Stop();
  return engine_.Drain(deadline);
}

void TreeEngine::StartThreads() {
  for (const std::string& peer : parts_.PeerIds()) {
    threads_.emplace_back([this, peer] { Loop([this, peer] { return parts_.Work(peer); }); });
  }
  if (!rounds_.has_leaves()) return;
  const std::vector<std::string> leaves = rounds_.LeafIds();
  const size_t transfers = std::clamp<size_t>(kTransfers / leaves.size(), 1, kTransfersOfLeaf);
  for (const std::string& leaf : leaves) {
    threads_.emplace_back([this, leaf] { Loop([this, leaf] { return rounds_.WorkOn(leaf); }); });
    for (size_t i = 0; i < transfers; ++i) {
      threads_.emplace_back(
          [this, leaf] { Loop([this, leaf] { return rounds_.Transfer(leaf); }); });
    }
  }
  threads_.emplace_back([this] { Loop([this] { return rounds_.Tick(); }); });
}

void TreeEngine::Loop(const std::function<Backoff::Time()>& work) {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const uint64_t seen = changes_;
    lock.unlock();
    const Backoff::Time next = work();
    lock.lock();
    changed_.wait_until(lock, next, [&] { return stopping_ || changes_ != seen; });
  }
}

void TreeEngine::Wake() {
  const std::lock_guard lock(mutex_);
  ++changes_;
  changed_.notify_all();
}

void TreeEngine::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  rounds_.Cancel();
  parts_.Cancel();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace sparseagg

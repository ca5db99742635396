#include "service/tree/tree_engine.h"

#include <utility>

#include "base/status.h"

namespace sparseagg {
namespace {

constexpr std::chrono::milliseconds kInterval{100};

}  // namespace

absl::StatusOr<std::unique_ptr<TreeEngine>> TreeEngine::Start(TreeOptions options, Engine& engine,
                                                              const UpdateStore& store,
                                                              TaskRowStore* rows) {
  std::unique_ptr<TreeEngine> tree(new TreeEngine(std::move(options), engine, store, rows));
  SPARSEAGG_RETURN_IF_ERROR(tree->rounds_.Recover());
  tree->StartThreads();
  return tree;
}

absl::StatusOr<RoundSnapshot> TreeEngine::CreateRound(const CreateRoundArgs& args) {
  auto created = rounds_.Create(args);
  Wake();
  return created;
}

absl::StatusOr<RoundSnapshot> TreeEngine::GetRound(std::string_view name) {
  SPARSEAGG_ASSIGN_OR_RETURN(RoundSnapshot round, engine_.GetRound(name));
  return rounds_.Shown(std::move(round));
}

std::vector<RoundSnapshot> TreeEngine::ListRounds(std::string_view after, size_t limit) {
  std::vector<RoundSnapshot> rounds = engine_.ListRounds(after, limit);
  for (RoundSnapshot& round : rounds) round = rounds_.Shown(std::move(round));
  return rounds;
}

absl::StatusOr<RoundSnapshot> TreeEngine::SealRound(std::string_view name) {
  SPARSEAGG_ASSIGN_OR_RETURN(RoundSnapshot sealed, rounds_.Seal(name));
  Wake();
  return rounds_.Shown(std::move(sealed));
}

absl::StatusOr<RoundSnapshot> TreeEngine::AbortRound(std::string_view name) {
  auto aborted = engine_.AbortRound(name);
  Wake();
  return aborted;
}

absl::Status TreeEngine::DeleteRound(std::string_view name) {
  absl::Status deleted = engine_.DeleteRound(name);
  Wake();
  return deleted;
}

absl::StatusOr<WatchHandle> TreeEngine::Watch(
    std::string_view name, WatchScope what,
    std::function<void(const std::optional<RoundSnapshot>&)> on_change) {
  return engine_.Watch(
      name, what,
      [this, on_change = std::move(on_change)](const std::optional<RoundSnapshot>& round) {
        if (!round.has_value()) return on_change(round);
        on_change(rounds_.Shown(*round));
      });
}

EngineStats TreeEngine::Stats() const {
  EngineStats stats = engine_.Stats();
  stats.leaves = rounds_.Leaves();
  return stats;
}

bool TreeEngine::Drain(std::chrono::steady_clock::time_point deadline) {
  Stop();
  return engine_.Drain(deadline);
}

void TreeEngine::StartThreads() {
  const std::vector<std::string> leaves = rounds_.LeafIds();
  if (leaves.empty()) return;
  for (const std::string& leaf : leaves) {
    if (!working_on_.insert(leaf).second) continue;
    threads_.emplace_back([this, leaf] { Loop([this, leaf] { return rounds_.WorkOn(leaf); }); });
  }
  threads_.emplace_back([this] {
    Loop([this] {
      rounds_.Tick();
      return false;
    });
  });
}

void TreeEngine::Loop(const std::function<bool()>& work) {
  uint64_t seen = 0;
  while (true) {
    const bool again = work();
    std::unique_lock lock(mutex_);
    if (again) {
      ++changes_;
      changed_.notify_all();
    }
    changed_.wait_for(lock, kInterval, [&] { return stopping_ || changes_ != seen; });
    if (stopping_) return;
    seen = changes_;
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
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace sparseagg

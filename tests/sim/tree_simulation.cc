#include "tests/sim/tree_simulation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/round_tree.h"
#include "tests/service/engine/testing.h"

namespace sparseagg::sim {

TreeSimulation::TreeSimulation(uint64_t seed, const std::string& folder,
                               std::function<void(const std::string&)> log)
    : random_(seed), log_(std::move(log)), backend_(testing::MakeBackend("cpu")) {
  const auto now = [this] { return now_; };
  root_ = std::make_unique<TreeNode>(folder + "/root", *backend_, now);
  one_ = std::make_unique<TreeNode>(folder + "/one", *backend_, now);
  const size_t leaves = 1 + Below(Chance(25) ? 8 : 4);
  for (size_t i = 0; i < leaves; ++i) {
    const std::string id = absl::StrCat("leaf-", i);
    list_.push_back({id, absl::StrCat("host-", i, ":50061")});
    leaves_[id] = std::make_unique<TreeNode>(absl::StrCat(folder, "/", id), *backend_, now);
  }
  for (const auto& [id, leaf] : leaves_) {
    OwnerOptions options{.peers = list_};
    options.connect = [this, owner = leaf.get()](const Leaf& peer) {
      return Connect(*owner, peer);
    };
    options.now = [this] { return std::chrono::steady_clock::time_point(now_.time_since_epoch()); };
    options.shortest_pause = options.longest_pause = options.idle_pause =
        std::chrono::milliseconds(0);
    leaf->owner_options = std::move(options);
  }
}

// --- Servers ---

std::vector<TreeNode*> TreeSimulation::Nodes() {
  std::vector<TreeNode*> nodes = {root_.get()};
  for (const auto& [id, leaf] : leaves_) nodes.push_back(leaf.get());
  return nodes;
}

std::unique_ptr<LeafLink> TreeSimulation::Connect(const TreeNode& caller, const Leaf& leaf) {
  return std::make_unique<SimulatedLink>(caller, LeafNode(leaf.id),
                                         [this] { return loses_answers_ && Chance(3); });
}

void TreeSimulation::StartRoot() {
  TreeOptions options{.leaves = list_};
  options.connect = [this](const Leaf& leaf) { return Connect(*root_, leaf); };
  options.now = [this] { return now_; };
  options.steady_now = [this] {
    return std::chrono::steady_clock::time_point(now_.time_since_epoch());
  };
  options.poll_interval = options.goal_poll_interval = std::chrono::milliseconds(0);
  options.shortest_pause = options.longest_pause = std::chrono::milliseconds(0);
  tree_ = std::make_unique<TreeRounds>(options, root_->engine(), root_->store(), &root_->store());
}

std::string TreeSimulation::RestartCrashed() {
  for (TreeNode* node : Nodes()) {
    if (!node->crashed()) continue;
    ++counts_.crashes;
    node->is_full = false;
    if (node == root_.get()) tree_.reset();
    if (const absl::Status started = node->Restart(); !started.ok()) {
      return "a start fails: " + started.ToString();
    }
    if (node != root_.get()) continue;
    StartRoot();
    if (const absl::Status read = tree_->Recover(); !read.ok()) return read.ToString();
  }
  return "";
}

bool TreeSimulation::IsFullDisk(const absl::Status& status) {
  const std::vector<TreeNode*> nodes = Nodes();
  if (ErrorReason(status) != "STORE_FULL" ||
      std::ranges::none_of(nodes, [](const TreeNode* node) { return node->disk_failed(); })) {
    return false;
  }
  ++counts_.disk_errors;
  return true;
}

std::string TreeSimulation::LeafOf(const Round& round, const std::string& contributor) const {
  return sparseagg::LeafOf({.leaves = list_, .self = ""}, round.name, contributor).id;
}

// --- Steps ---

std::string TreeSimulation::Step() {
  for (TreeNode* node : Nodes()) {
    node->BeginStep(Chance(3) ? static_cast<int>(Below(6)) : -1,
                    Chance(3) ? static_cast<int>(Below(12)) : -1);
    // What is rare enough that rounds end in between.
    if (node->is_full ? Chance(15) : Chance(1)) node->is_full = !node->is_full;
  }
  using Kind = std::string (TreeSimulation::*)();
  constexpr std::pair<int, Kind> kKinds[] = {{60, &TreeSimulation::Create},
                                             {210, &TreeSimulation::Submit},
                                             {40, &TreeSimulation::Seal},
                                             {20, &TreeSimulation::AbortOrDelete},
                                             {100, &TreeSimulation::WorkOnAll},
                                             {140, &TreeSimulation::WorkOnLeaf},
                                             {80, &TreeSimulation::Tick},
                                             {80, &TreeSimulation::WorkOnOwner},
                                             {30, &TreeSimulation::Read},
                                             {140, &TreeSimulation::RunTask},
                                             {50, &TreeSimulation::ChangeConnection},
                                             {15, &TreeSimulation::Kill},
                                             {1, &TreeSimulation::LoseLeaf},
                                             {34, &TreeSimulation::PassTime}};
  auto drawn = static_cast<int>(Below(1000));
  for (const auto& [share, kind] : kKinds) {
    drawn -= share;
    if (drawn >= 0) continue;
    if (std::string wrong = (this->*kind)(); !wrong.empty()) return wrong;
    break;
  }
  if (std::string wrong = RestartCrashed(); !wrong.empty()) return wrong;
  return Check();
}

TreeSimulation::Round* TreeSimulation::RandomRound() {
  return rounds_.empty() ? nullptr : &rounds_[Below(rounds_.size())];
}

}  // namespace sparseagg::sim

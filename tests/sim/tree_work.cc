// The steps of a simulated tree that its servers do by themselves, and how a client reads results.
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/tree_simulation.h"

namespace sparseagg::sim {

std::string TreeSimulation::WorkOnLeaf() {
  const std::string& leaf = list_[Below(list_.size())].id;
  log_("work on " + leaf);
  tree_->WorkOn(leaf);
  tree_->Transfer(leaf);
  return "";
}

std::string TreeSimulation::WorkOnOwner() {
  const std::string& owner = list_[Below(list_.size())].id;
  const std::string& peer = list_[Below(list_.size())].id;
  log_(absl::StrCat(owner, " takes rows from ", peer));
  LeafNode(owner).owner().Work(peer);
  return "";
}

// Most of what all servers have to do, as their threads do it beside each other.
std::string TreeSimulation::WorkOnAll() {
  log_("work on all");
  for (const Leaf& leaf : list_) {
    if (Chance(80)) tree_->WorkOn(leaf.id);
    if (Chance(80)) tree_->Transfer(leaf.id);
    for (const Leaf& peer : list_) {
      if (Chance(80)) LeafNode(leaf.id).owner().Work(peer.id);
    }
  }
  for (TreeNode* node : Nodes()) {
    if (Chance(80)) node->executor().WaitUntilIdle();
  }
  tree_->Tick();
  return "";
}

std::string TreeSimulation::Read() {
  std::vector<const Round*> rounds;
  for (const Round& round : rounds_) {
    if (round.published && !round.may_be_deleted) rounds.push_back(&round);
  }
  if (rounds.empty() || !root_->is_connected) return "";
  const Round& round = *rounds[Below(rounds.size())];
  log_("read " + round.name);
  return CheckBytes(round, false);
}

std::string TreeSimulation::Tick() {
  log_("tick");
  tree_->Tick();
  return "";
}

std::string TreeSimulation::RunTask() {
  std::vector<TreeNode*> nodes = Nodes();
  std::erase_if(nodes, [](TreeNode* node) { return node->executor().queued() == 0; });
  if (nodes.empty()) return "";
  testing::ManualExecutor& executor = nodes[Below(nodes.size())]->executor();
  log_("a task");
  executor.RunOne(Below(executor.queued()));
  return "";
}

}  // namespace sparseagg::sim

// The steps of a simulated tree: requests of every kind, faults and time.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/service/engine/testing.h"
#include "tests/sim/tree_simulation.h"

namespace sparseagg::sim {
namespace {

constexpr size_t kRounds = 3;  // at a time

}  // namespace

const std::vector<TensorSpec> TreeSimulation::kTensors = {
    testing::Sparse("t", kContributors* kRowsApart), testing::Sparse("s", 8)};

testing::TestUpdate TreeSimulation::UpdateOf(const Round& round, const std::string& contributor,
                                             const std::string& update_id) {
  testing::TestUpdate update(round.name, contributor, 1.0f, update_id);
  const float value = ValueOf(contributor);
  update.Add<float>(kTensors[0], {static_cast<int64_t>(NumberOf(contributor) * kRowsApart)},
                    {value});
  update.Add<float>(kTensors[1], {3}, {0x1p-20f / value});
  return update;
}

// Asks for a new round, or again for one whose creation failed.
std::string TreeSimulation::Create() {
  if (!root_->is_connected) return "";
  auto open = std::ranges::find(rounds_, false, &Round::created);
  if (open == rounds_.end()) {
    const auto live = std::ranges::count(rounds_, false, &Round::deleted);
    if (live >= static_cast<std::ptrdiff_t>(kRounds)) return "";
    Round round;
    round.name = absl::StrCat("rounds/r", rounds_.size());
    if (Chance(50)) round.leaf_wait = std::chrono::seconds(Chance(50) ? 5 : 20);
    round.owners = Chance(50);
    round.keeps_updates = Chance(50);
    open = rounds_.insert(rounds_.end(), round);
  }
  log_("create " + open->name);
  CreateRoundArgs args;
  args.round_id = open->name.substr(std::string_view("rounds/").size());
  args.request_id = "create " + open->name;
  args.spec = {.tensors = kTensors,
               .durability = Durability::kDurable,
               .policy = {.leaf_wait = open->leaf_wait},
               .keep_updates = open->keeps_updates};
  args.spec.tree.owners = open->owners;
  const absl::Status created = tree_->Create(args).status();
  open->may_be_created = true;
  if (root_->crashed() || IsFullDisk(created)) return "";
  if (ErrorReason(created) == "LEAF_UNAVAILABLE") return "";
  if (open->lost_a_leaf && ErrorReason(created) == "ROUND_NOT_OPEN") return "";
  if (!created.ok()) return absl::StrCat("creation of ", open->name, ": ", created.ToString());
  open->created = true;
  return "";
}

std::string TreeSimulation::Submit() {
  Round* round = RandomRound();
  if (round == nullptr || !round->created) return "";
  const std::string contributor = ContributorOf(Below(kContributors));
  const std::string update_id = Chance(95) ? "u0" : "u1";
  std::string node_id = LeafOf(*round, contributor);
  if (Chance(10)) {
    const size_t other = Below(list_.size() + 1);
    node_id = other == list_.size() ? "" : list_[other].id;
  }
  return SubmitAt(*round, contributor, node_id, update_id);
}

std::string TreeSimulation::SubmitAt(Round& round, const std::string& contributor,
                                     const std::string& node_id, const std::string& update_id) {
  TreeNode& node = node_id.empty() ? *root_ : LeafNode(node_id);
  if (!node.is_connected) return "";
  const bool is_stray = node_id != LeafOf(round, contributor);
  log_(absl::StrCat("submit ", contributor, " ", update_id, " of ", round.name, " at ", node_id));
  testing::TestUpdate update = UpdateOf(round, contributor, update_id);
  const auto receipt = node.engine().Submit(update.header, update.tensors());
  if (is_stray) {
    ++counts_.strays;
    if (receipt.ok()) return absl::StrCat(node_id, " takes ", contributor, " of another leaf");
    return "";
  }
  if (node.crashed()) {
    const auto [known, is_new] = round.updates.try_emplace(contributor);
    if (is_new) known->second.update_id = update_id;
    known->second.sent.insert(update_id);
    return "";
  }
  if (receipt.ok()) return CheckReceipt(round, contributor, *receipt);
  return CheckRefusal(round, contributor, update_id, receipt.status());
}

std::string TreeSimulation::CheckReceipt(Round& round, const std::string& contributor,
                                         const Receipt& receipt) {
  const auto [known, is_new] = round.updates.try_emplace(contributor);
  Update& update = known->second;
  if (is_new && receipt.duplicate) return contributor + " is known and was never sent";
  if (update.receipted && (!receipt.duplicate || receipt.sequence != update.sequence ||
                           receipt.update_id != update.update_id)) {
    return absl::StrCat(contributor, " of ", round.name, " gets another receipt");
  }
  if (round.counted.has_value() && !IsGivenUp(round, contributor) &&
      !round.counted->contains(contributor)) {
    return absl::StrCat(contributor, " of ", round.name, " gets a receipt and does not count");
  }
  ++(receipt.duplicate ? counts_.duplicates : counts_.accepted);
  update.sent.insert(receipt.update_id);
  update = {std::move(update.sent), receipt.update_id, true, receipt.sequence};
  return "";
}

std::string TreeSimulation::CheckRefusal(const Round& round, const std::string& contributor,
                                         const std::string& update_id,
                                         const absl::Status& refusal) {
  const auto known = round.updates.find(contributor);
  const bool may_have_ended = round.may_be_aborted || round.may_be_deleted || round.aborted ||
                              round.deleted || round.lost_a_leaf || round.leaf_wait.has_value();
  const bool may_be_closed = may_have_ended || round.sealed || round.may_be_sealed;
  const bool is_resend = known != round.updates.end() && known->second.receipted &&
                         known->second.update_id == update_id;
  if (may_have_ended || (may_be_closed && !is_resend)) return "";
  if (IsFullDisk(refusal) && !is_resend) return "";
  if (known != round.updates.end() && known->second.update_id != update_id &&
      ErrorReason(refusal) == "CONTRIBUTOR_ALREADY_COUNTED") {
    return "";
  }
  return absl::StrCat(contributor, " of ", round.name, " is refused: ", refusal.ToString());
}

std::string TreeSimulation::Seal() {
  Round* round = RandomRound();
  if (round == nullptr || !round->created || !root_->is_connected) return "";
  log_("seal " + round->name);
  round->seal_asked = std::min(round->seal_asked, now_);
  const absl::Status sealed = tree_->Seal(round->name).status();
  const bool may_have_ended = round->aborted || round->may_be_aborted || round->deleted ||
                              round->may_be_deleted || round->lost_a_leaf;
  if (root_->crashed() || IsFullDisk(sealed)) {
    round->may_be_sealed = true;
  } else if (sealed.ok()) {
    round->sealed = true;
  } else if (!may_have_ended) {
    return absl::StrCat("seal of ", round->name, ": ", sealed.ToString());
  }
  return "";
}

std::string TreeSimulation::AbortOrDelete() {
  Round* round = RandomRound();
  if (round == nullptr || !round->created || round->deleted || !root_->is_connected) return "";
  if (round->published || round->aborted) {
    if (round->published && !round->counted.has_value() && Chance(80)) return "";
    log_("delete " + round->name);
    const absl::Status deleted = root_->engine().DeleteRound(round->name);
    tree_->Changed(round->name);
    round->may_be_deleted = true;
    round->deleted = deleted.ok() && !root_->crashed();
    return "";
  }
  if (Chance(70)) return "";
  log_("abort " + round->name);
  const absl::Status aborted = root_->engine().AbortRound(round->name).status();
  tree_->Changed(round->name);
  round->may_be_aborted = true;
  round->aborted = aborted.ok() && !root_->crashed();
  return "";
}

std::string TreeSimulation::ChangeConnection() {
  const std::vector<TreeNode*> nodes = Nodes();
  TreeNode& node = *nodes[Below(nodes.size())];
  if (Chance(30)) {  // one way only
    const bool heals = Chance(70);
    for (TreeNode* each : nodes) {
      if (heals) each->unreachable.clear();
    }
    if (!heals) node.unreachable.insert(nodes[Below(nodes.size())]);
    log_(heals ? "every server reaches every other" : "a server does not reach another");
    return "";
  }
  node.is_connected = !node.is_connected || Chance(75);
  log_(node.is_connected ? "connected" : "cut off");
  return "";
}

std::string TreeSimulation::Kill() {
  const std::vector<TreeNode*> nodes = Nodes();
  TreeNode& node = *nodes[Below(nodes.size())];
  log_("kill");
  node.End();
  return "";
}

std::string TreeSimulation::LoseLeaf() {
  TreeNode& leaf = LeafNode(list_[Below(list_.size())].id);
  log_("a leaf loses its disk");
  leaf.is_full = false;
  ++counts_.lost;
  for (Round& round : rounds_) round.lost_a_leaf = true;
  return leaf.RestartEmpty().ok() ? "" : "an empty leaf does not start";
}

std::string TreeSimulation::PassTime() {
  const std::chrono::milliseconds time(Below(8000));
  log_(absl::StrCat("time passes: ", time.count(), " ms"));
  now_ += time;
  for (TreeNode* node : Nodes()) node->executor().Advance(time);
  return "";
}
}  // namespace sparseagg::sim

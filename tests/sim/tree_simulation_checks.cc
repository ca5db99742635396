// What holds after every step and at the end.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/service/engine/testing.h"
#include "tests/sim/tree_simulation.h"

namespace sparseagg::sim {

std::string TreeSimulation::Check() {
  for (Round& round : rounds_) {
    if (std::string wrong = CheckRound(round); !wrong.empty()) {
      return absl::StrCat(round.name, ": ", wrong);
    }
  }
  return "";
}

std::string TreeSimulation::CheckRound(Round& round) {
  const auto own = root_->engine().GetRound(round.name);
  if (absl::IsNotFound(own.status())) {
    if (round.may_be_deleted) round.deleted = true;
    return round.created && !round.deleted ? "gone" : "";
  }
  if (!own.ok()) return own.status().ToString();
  if (round.deleted || !round.may_be_created) return "there, and should not be";
  const RoundSnapshot seen = tree_->Shown(*own);
  if (round.published && seen.state != RoundState::kPublished) return "no longer published";
  switch (seen.state) {
    case RoundState::kOpen:
      return round.sealed || round.aborted ? "open again" : "";
    case RoundState::kSealed:
      if (round.aborted) return "no longer aborted";
      return round.sealed || round.may_be_sealed ? "" : "sealed, and nobody asked for it";
    case RoundState::kAborted:
      round.aborted = true;
      if (round.may_be_aborted || MayFail(round, seen.failure)) return "";
      return "aborted: " + seen.failure;
    case RoundState::kPublished:
      if (!round.sealed && !round.may_be_sealed) return "published, and nobody asked for it";
      return CheckPublished(round, seen);
    case RoundState::kRetired:
      break;
  }
  return "retired";
}

bool TreeSimulation::MayFail(const Round& round, std::string_view failure) const {
  if (failure.starts_with("LEAF_LOST")) return round.lost_a_leaf && !round.leaf_wait.has_value();
  if (!round.owners) return false;
  if (!failure.starts_with("OWNER_LOST") && !failure.starts_with("OWNER_FAILED")) return false;
  if (round.lost_a_leaf) return true;
  const bool is_late = failure.starts_with("OWNER_LOST") ||
                       failure.find("sends this owner nothing") != std::string_view::npos;
  return is_late && round.leaf_wait.has_value() && now_ - round.seal_asked >= *round.leaf_wait;
}

std::string TreeSimulation::CheckPublished(Round& round, const RoundSnapshot& seen) {
  const auto result = root_->engine().Result(round.name);
  if (!result.ok()) return "published without a result: " + result.status().ToString();
  const Manifest& manifest = (*result)->manifest;
  if (round.published && manifest.result_digest != round.digest) return "another result";
  if (!round.published) {
    round.published = true;
    round.digest = manifest.result_digest;
    round.given_up = {manifest.given_up_leaves.begin(), manifest.given_up_leaves.end()};
    ++counts_.published;
    counts_.given_up += round.given_up.size();
    counts_.early += loses_answers_ ? 1 : 0;
    counts_.divided += loses_answers_ && manifest.parts.size() > 1 ? 1 : 0;
  }
  if (!round.given_up.empty() && !round.leaf_wait) return "a leaf is given up without leaf_wait";
  if (!round.given_up.empty() && !round.lost_a_leaf && now_ - round.seal_asked < *round.leaf_wait) {
    return "a leaf is given up too soon";
  }
  if (!round.owners != manifest.parts.empty() && round.given_up.size() < list_.size()) {
    return absl::StrCat("the result has ", manifest.parts.size(), " parts");
  }
  if (seen.contributors != manifest.contributors) return "other contributors than the manifest";
  return round.counted.has_value() ? "" : CheckCounted(round, **result);
}

bool TreeSimulation::ReadEntries(const PublishedResult& result, std::map<int64_t, float>& entries) {
  const auto add = [&](const SparseTensor& tensor) {
    const std::vector<float> values = testing::Values<float>(tensor);
    for (size_t i = 0; i < values.size(); ++i) entries[tensor.indices[i]] = values[i];
  };
  if (result.manifest.parts.empty()) add(result.tensors[0]);
  for (const ResultPart& part : result.manifest.parts) {
    const auto own = LeafNode(part.owner.id).engine().Result(part.round);
    if (!own.ok()) return false;  // it is lost, or not yet published again after a restart
    add((*own)->tensors[0]);
  }
  return true;
}

std::string TreeSimulation::CheckCounted(Round& round, const PublishedResult& result) {
  std::map<int64_t, float> entries;
  if (!ReadEntries(result, entries)) return "";
  std::set<std::string> counted;
  for (const auto& [row, value] : entries) {
    const std::string contributor = ContributorOf(static_cast<size_t>(row) / kRowsApart);
    counted.insert(contributor);
    if (value != ValueOf(contributor)) return absl::StrCat(contributor, " counts with ", value);
    if (!round.updates.contains(contributor)) return contributor + " counts and was never sent";
    if (IsGivenUp(round, contributor)) return contributor + " counts, and its leaf is given up";
  }
  for (const auto& [contributor, update] : round.updates) {
    if (update.receipted && !IsGivenUp(round, contributor) && !counted.contains(contributor)) {
      return contributor + " has a receipt and does not count";
    }
  }
  const Manifest& manifest = result.manifest;
  if (manifest.contributors != counted.size() ||
      manifest.total_weight != static_cast<double>(counted.size())) {
    return absl::StrCat("the manifest has ", manifest.contributors, " contributors of weight ",
                        manifest.total_weight, ", the sum ", counted.size());
  }
  round.counted = std::move(counted);
  return CompareWithOneServer(round, manifest);
}

std::string TreeSimulation::Run(int steps) {
  for (TreeNode* node : Nodes()) {
    if (const absl::Status started = node->Restart(); !started.ok()) return started.ToString();
  }
  if (const absl::Status started = one_->Restart(); !started.ok()) return started.ToString();
  StartRoot();
  if (const absl::Status read = tree_->Recover(); !read.ok()) return read.ToString();
  if (list_.size() > 4) steps *= 2;  // each of them has to be worked on
  for (int step = 0; step < steps; ++step) {
    if (std::string wrong = Step(); !wrong.empty()) return absl::StrCat("step ", step, ": ", wrong);
  }
  const std::string wrong = End();
  return wrong.empty() ? "" : "at the end: " + wrong;
}

void TreeSimulation::WorkUntilIdle() {
  for (int turn = 0; turn < 100; ++turn) {
    for (const Leaf& leaf : list_) {
      tree_->WorkOn(leaf.id);
      tree_->Transfer(leaf.id);
      for (const Leaf& peer : list_) LeafNode(leaf.id).owner().Work(peer.id);
    }
    tree_->Tick();
    now_ += std::chrono::seconds(1);  // for what is tried again later
    for (TreeNode* node : Nodes()) {
      node->executor().Advance(std::chrono::seconds(1));
      node->executor().WaitUntilIdle();
    }
  }
}

std::string TreeSimulation::CheckAtEnd(Round& round) {
  if (!round.published) return "";
  for (const auto& [contributor, update] : round.updates) {
    const std::string leaf = LeafOf(round, contributor);
    if (IsGivenUp(round, contributor)) {
      if (!LeafNode(leaf).store().Find(round.name, contributor).has_value()) continue;
      return contributor + " still has a receipt at a leaf that is given up";
    }
    if (round.lost_a_leaf || !update.receipted) continue;
    if (std::string wrong = SubmitAt(round, contributor, leaf, update.update_id); !wrong.empty())
      return wrong;
  }
  if (!round.counted.has_value()) {
    return round.owners && round.lost_a_leaf ? "" : "a part of the result cannot be read";
  }
  if (std::string wrong = CheckBytes(round, true); !wrong.empty()) return wrong;
  if (!round.owners) return "";
  const auto verified = tree_->Verify(round.name, [] { return false; });
  const std::string reason = ErrorReason(verified.status());
  if (verified.ok() && verified->result_digest == round.digest) return "";
  if (reason == "OWNER_LOST" && round.lost_a_leaf) return "";
  if (reason == "UPDATES_NOT_KEPT" && !round.keeps_updates) return "";
  return "is not verified: " + verified.status().ToString();
}

std::string TreeSimulation::End() {
  log_("the end");
  loses_answers_ = false;
  for (TreeNode* node : Nodes()) {
    node->is_connected = true;
    node->unreachable.clear();
    node->is_full = false;
    node->BeginStep(-1, -1);
  }
  for (Round& round : rounds_) {
    const auto own = root_->engine().GetRound(round.name);
    if (!own.ok() || own->state != RoundState::kOpen) continue;
    round.seal_asked = std::min(round.seal_asked, now_);
    const absl::Status sealed = tree_->Seal(round.name).status();
    if (!sealed.ok()) return absl::StrCat("seal of ", round.name, ": ", sealed.ToString());
    round.may_be_sealed = true;
  }
  WorkUntilIdle();
  if (std::string wrong = Check(); !wrong.empty()) return wrong;
  for (Round& round : rounds_) {
    const auto own = root_->engine().GetRound(round.name);
    if (!own.ok()) continue;
    if (!IsFinal(own->state)) {
      std::string leaves;
      for (const LeafStatus& leaf : tree_->Leaves()) {
        const auto there = LeafNode(leaf.leaf.id).engine().GetRound(round.name);
        absl::StrAppend(&leaves, "; ", leaf.leaf.id, " ",
                        std::string(there.ok() ? RoundStateName(there->state) : "has no round"),
                        ": ", leaf.error);
      }
      return absl::StrCat(round.name, " does not end and is ",
                          std::string(RoundStateName(own->state)), leaves);
    }
    if (std::string wrong = CheckAtEnd(round); !wrong.empty()) {
      return absl::StrCat(round.name, ": ", wrong);
    }
    if (const absl::Status deleted = root_->engine().DeleteRound(round.name); !deleted.ok()) {
      return "a deletion: " + deleted.ToString();
    }
    tree_->Changed(round.name);
  }
  WorkUntilIdle();
  for (TreeNode* node : Nodes()) {
    if (!node->engine().ListRounds("", 1).empty()) return "a server still has a round";
  }
  bool has_rows = false;
  const absl::Status read =
      root_->store().ReadTaskRows("", [&](const TaskRow&) { has_rows = true; });
  return has_rows || !read.ok() ? "the root still has rows" : "";
}

}  // namespace sparseagg::sim

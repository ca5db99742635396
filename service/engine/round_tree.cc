#include "service/engine/round_tree.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/host_port.h"
#include "base/rendezvous.h"
#include "base/status.h"
#include "service/engine/names.h"

namespace sparseagg {
namespace {

constexpr std::string_view kLeafSenderPrefix = "leaf/";
constexpr size_t kLeafIdBytesMax = 64;
constexpr size_t kAddressBytesMax = 255;

bool IsLeafId(std::string_view id) {
  return !id.empty() && id.size() <= kLeafIdBytesMax &&
         id.find_first_of("/|@") == std::string_view::npos && ValidateContributor(id).ok();
}

absl::Status Invalid(const std::string& message) {
  return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_SPEC", message);
}

absl::Status WrongLeaf(const Leaf& leaf, std::string_view what) {
  return WithMetadata(
      WithMetadata(MakeError(absl::StatusCode::kFailedPrecondition, "WRONG_LEAF", what), "leaf",
                   leaf.id),
      "address", leaf.address);
}

}  // namespace

std::string LeafSender(std::string_view leaf) {
  return absl::StrCat(std::string(kLeafSenderPrefix), std::string(leaf));
}

std::vector<std::string> GivenUpLeaves(
    const RoundTree& tree,
    const std::function<std::optional<UpdateRecord>(const std::string& sender)>& find) {
  std::vector<std::string> given_up;
  if (!tree.is_root()) return given_up;
  for (const Leaf& leaf : tree.leaves) {
    const std::optional<UpdateRecord> counted = find(LeafSender(leaf.id));
    if (counted.has_value() && counted->update_id == kGivenUpId) given_up.push_back(leaf.id);
  }
  std::ranges::sort(given_up);
  return given_up;
}

absl::Status CheckTree(const RoundTree& tree) {
  if (tree.leaves.size() > kLeavesMax) {
    return Invalid(absl::StrCat("a round has at most ", kLeavesMax, " leaves; this one has ",
                                tree.leaves.size()));
  }
  std::set<std::string_view> ids;
  for (const Leaf& leaf : tree.leaves) {
    if (!IsLeafId(leaf.id)) {
      return Invalid(absl::StrCat("leaf id ", Quoted(leaf.id), " is not 1 to ", kLeafIdBytesMax,
                                  " characters of [A-Za-z0-9._:-]"));
    }
    if (!ids.insert(leaf.id).second) {
      return Invalid(absl::StrCat("leaf ", Quoted(leaf.id), " occurs twice"));
    }
    if (leaf.address.empty() || leaf.address.size() > kAddressBytesMax) {
      return Invalid(absl::StrCat("the address of leaf ", Quoted(leaf.id), " is not 1 to ",
                                  kAddressBytesMax, " characters"));
    }
    if (const std::string wrong = DialAddressError(leaf.address); !wrong.empty()) {
      return Invalid(absl::StrCat("the address ", Quoted(leaf.address), " of leaf ",
                                  Quoted(leaf.id), ": ", wrong));
    }
  }
  if (!tree.self.empty() && !ids.contains(tree.self)) {
    return Invalid(absl::StrCat("leaf ", Quoted(tree.self), " is not one of the leaves"));
  }
  if (!tree.root_round.empty() &&
      (tree.self.empty() || tree.root_round.size() > kRootRoundBytesMax)) {
    return Invalid(absl::StrCat("root_round is for the round of a leaf, in at most ",
                                kRootRoundBytesMax, " characters"));
  }
  if (tree.part.has_value() && !tree.is_root()) {
    return Invalid("the round of an owner has leaves, and is not one of theirs");
  }
  return absl::OkStatus();
}

const Leaf& LeafOf(const RoundTree& tree, std::string_view round, std::string_view contributor) {
  return tree.leaves[ChooseLeaf(round, contributor, tree.leaves.size(),
                                [&](size_t i) { return std::string_view(tree.leaves[i].id); })];
}

absl::Status CheckLeaf(const RoundTree& tree, std::string_view round, std::string_view contributor,
                       bool is_partial) {
  if (tree.leaves.empty()) return absl::OkStatus();
  if (!is_partial && contributor.starts_with(kLeafSenderPrefix)) {
    return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_CONTRIBUTOR",
                     absl::StrCat("contributor ", Quoted(contributor), " of round ", Quoted(round),
                                  ": names below \"leaf/\" are those of leaves"));
  }
  if (tree.is_root() && is_partial) {
    const bool is_leaf = std::ranges::any_of(
        tree.leaves, [&](const Leaf& leaf) { return LeafSender(leaf.id) == contributor; });
    if (is_leaf) return absl::OkStatus();
  }
  const Leaf& leaf = LeafOf(tree, round, contributor);
  if (leaf.id == tree.self && !is_partial) return absl::OkStatus();
  const std::string what =
      is_partial ? absl::StrCat("round ", Quoted(round), " has leaves, so it takes the partial ",
                                "aggregates of its leaves only, and these at the root")
                 : absl::StrCat("contributor ", Quoted(contributor), " belongs to leaf ",
                                Quoted(leaf.id), " of round ", Quoted(round), " at ",
                                Quoted(leaf.address), "; send the update there");
  return WrongLeaf(leaf, what);
}

absl::Status CheckCovered(const RoundTree& tree, std::string_view round, std::string_view sender,
                          std::span<const UpdateRecord> covered) {
  const std::string_view own = sender.substr(kLeafSenderPrefix.size());
  for (const UpdateRecord& update : covered) {
    const Leaf& leaf = LeafOf(tree, round, update.contributor);
    if (leaf.id == own) continue;
    return WithMetadata(
        WrongLeaf(leaf,
                  absl::StrCat("the partial aggregate of leaf ", Quoted(own), " of round ",
                               Quoted(round), " covers contributor ", Quoted(update.contributor),
                               ", who belongs to leaf ", Quoted(leaf.id))),
        "contributor", update.contributor);
  }
  return absl::OkStatus();
}

}  // namespace sparseagg

// The leaves of a round: servers that receive a part of its updates each. The root's round takes
// their partial aggregates and no updates; a leaf's round takes the updates of its contributors.
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_TREE_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_TREE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "service/engine/partial/row_range.h"
#include "service/store/store.h"

namespace sparseagg {

struct Leaf {
  std::string id;  // decides who belongs to it
  std::string address;

  bool operator==(const Leaf&) const = default;
};

// What the round of an owner is: these rows of a round that its leaves have under the name.
struct RoundPart {
  std::string round;
  RowRange rows;

  bool operator==(const RoundPart&) const = default;
};

struct RoundTree {
  std::vector<Leaf> leaves;  // none: the round is not part of a tree
  std::string self;          // the leaf that has this round; empty: the root, or an owner
  bool owners = false;       // the leaves own ranges of the result's rows
  std::optional<RoundPart> part = std::nullopt;  // set: this is the round of an owner
  std::string root_round = "";  // of a leaf's round: the root's id of the round that it belongs to

  // Returns whether the round takes the partial aggregates of its leaves.
  bool is_root() const { return !leaves.empty() && self.empty(); }
  // Returns whether the result is divided among owners, and this is the root.
  bool is_divided() const { return is_root() && owners && !part.has_value(); }
  bool operator==(const RoundTree&) const = default;
};

// The start of the process that has a round.
struct LeafStart {
  std::string id;             // random
  uint64_t contributors = 0;  // of the round, then
};

// What a root knows of one of its leaves.
struct LeafStatus {
  Leaf leaf;
  bool up = false;  // its last answer was no failure of the connection
  std::chrono::milliseconds silent_for{0};
  std::string error;  // why the last call failed
  uint64_t rounds = 0;
  // Since the root started:
  uint64_t partial_bytes = 0;
  uint64_t given_up = 0;
};

// The update_id with which a root counts a leaf that was given up: with an empty partial aggregate,
// so that the store decides, once, between this and the leaf's own.
inline constexpr std::string_view kGivenUpId = "given-up";

// What the failure of a leaf's round begins with when its root has ended without it.
inline constexpr std::string_view kLeafGivenUp = "LEAF_GIVEN_UP";

inline constexpr size_t kLeavesMax = 256;
inline constexpr size_t kRootRoundBytesMax = 64;

// Returns the name by which the root counts the partial aggregate of a leaf.
std::string LeafSender(std::string_view leaf);

// Returns the ids of the leaves that the root has given up, ascending. `find` returns the accepted
// update of a sender.
std::vector<std::string> GivenUpLeaves(
    const RoundTree& tree,
    const std::function<std::optional<UpdateRecord>(const std::string& sender)>& find);

// Where the rows of a divided result are: the round of an owner.
struct ResultPart {
  Leaf owner;
  std::string round;
  RowRange rows;

  bool operator==(const ResultPart&) const = default;
};

// What a root knows of a divided result before it publishes: all that a manifest says of its rows.
struct DividedResult {
  std::vector<ResultPart> parts;
  std::vector<uint64_t> nnz;  // [tensors]
  uint64_t infinite_values = 0;
  std::string updates_digest;  // that of each owner
  std::string result_digest;

  bool operator==(const DividedResult&) const = default;
};

// Returns INVALID_ARGUMENT (INVALID_SPEC), naming the leaf, unless the ids are valid and distinct,
// each address is HOST:PORT, and `self` is one of the ids or empty; unless an owner has leaves;
// and unless `root_round` is that of a leaf's round, of at most kRootRoundBytesMax bytes.
absl::Status CheckTree(const RoundTree& tree);

// Returns the leaf of a contributor. REQUIRES: the tree has leaves.
const Leaf& LeafOf(const RoundTree& tree, std::string_view round, std::string_view contributor);

// Returns FAILED_PRECONDITION (WRONG_LEAF), whose metadata names the right leaf and its address,
// unless the round takes the update: a leaf takes those of its contributors, a root only the
// partial aggregates of its leaves. `round`: without the tenant.
absl::Status CheckLeaf(const RoundTree& tree, std::string_view round, std::string_view contributor,
                       bool is_partial);

// Returns FAILED_PRECONDITION (WRONG_LEAF), whose metadata names contributor, leaf and address, if
// a partial aggregate that a root gets from `sender`, one of its leaves, covers a contributor of
// another leaf. Its time is the product of contributors and leaves (docs/trees.md).
absl::Status CheckCovered(const RoundTree& tree, std::string_view round, std::string_view sender,
                          std::span<const UpdateRecord> covered);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_TREE_H_

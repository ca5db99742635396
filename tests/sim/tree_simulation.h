// Simulates a tree of servers: a root, leaves, contributors, disks, connections and time, on one
// thread. A seed decides everything that happens. Engines, stores and the root's state machine are
// the real ones.
//
// After every step it holds that:
//   - an update that was receipted is answered with the same receipt again, by its leaf only;
//   - a round that was created, sealed, published or deleted stays so at the root;
//   - a published sum has exactly the receipted updates of the leaves that the manifest does not
//     name as given up, besides updates whose answer was lost, which it has or has not;
//   - its bytes and digests are those of one server that gets the same updates, also where leaves
//     own its rows.
// At the end, when all servers answer, every round is published and then gone everywhere.
#ifndef SPARSEAGG_TESTS_SIM_TREE_SIMULATION_H_
#define SPARSEAGG_TESTS_SIM_TREE_SIMULATION_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/tree/tree_rounds.h"
#include "sparse/backend.h"
#include "tests/service/engine/testing.h"
#include "tests/sim/tree_node.h"

namespace sparseagg::sim {

struct TreeCounts {
  uint64_t accepted = 0;
  uint64_t duplicates = 0;
  uint64_t strays = 0;
  uint64_t published = 0;
  uint64_t early = 0;     // of these, before the end
  uint64_t divided = 0;   // in several parts, before the end
  uint64_t compared = 0;  // with one server's
  uint64_t read = 0;
  uint64_t given_up = 0;
  uint64_t lost = 0;
  uint64_t crashes = 0;
  uint64_t disk_errors = 0;
};

class TreeSimulation {
 public:
  // `folder` is for the disks. `log` gets a line for each step.
  TreeSimulation(uint64_t seed, const std::string& folder,
                 std::function<void(const std::string&)> log);

  // Returns the first thing that does not hold; empty: all holds.
  std::string Run(int steps);
  const TreeCounts& counts() const { return counts_; }

 private:
  // What a contributor knows of an update.
  struct Update {
    std::set<std::string> sent;  // all ids that the contributor has used
    std::string update_id;
    bool receipted = false;  // otherwise the answer was lost
    uint64_t sequence = 0;
  };
  static constexpr auto kNever = std::chrono::system_clock::time_point::max();
  // What the round's owner knows. "May" is what was asked, and the answer was lost.
  struct Round {
    std::string name;
    std::optional<std::chrono::milliseconds> leaf_wait;
    bool owners = false;
    bool keeps_updates = false;
    bool created = false;
    bool may_be_created = false;
    bool sealed = false;
    bool may_be_sealed = false;
    std::chrono::system_clock::time_point seal_asked = kNever;  // first
    bool aborted = false;
    bool may_be_aborted = false;
    bool deleted = false;
    bool may_be_deleted = false;
    bool published = false;
    bool lost_a_leaf = false;               // a leaf was emptied while the round was there
    std::map<std::string, Update> updates;  // by contributor
    // Since the publication:
    std::string digest;
    std::set<std::string> given_up;  // leaves
    // Contributors; once all parts of the result have been seen.
    std::optional<std::set<std::string>> counted;
    std::optional<std::string> bytes;  // of the result of one server
  };

  size_t Below(size_t bound) { return random_() % bound; }
  bool Chance(size_t percent) { return Below(100) < percent; }
  TreeNode& LeafNode(const std::string& id) { return *leaves_.at(id); }
  // Contributor i has row i * kRowsApart of the first tensor for itself, so its rows are in all
  // slices; of the second one, all have the same row.
  static constexpr size_t kContributors = 12;
  static constexpr size_t kRowsApart = 43'690;
  static const std::vector<TensorSpec> kTensors;
  static std::string ContributorOf(size_t number) { return "c" + std::to_string(number); }
  static size_t NumberOf(const std::string& contributor) {
    return std::stoul(contributor.substr(1));
  }
  static float ValueOf(const std::string& contributor) {
    return 1.0f + static_cast<float>(NumberOf(contributor));
  }
  static testing::TestUpdate UpdateOf(const Round& round, const std::string& contributor,
                                      const std::string& update_id);
  std::string LeafOf(const Round& round, const std::string& contributor) const;
  bool IsGivenUp(const Round& round, const std::string& contributor) const {
    return round.given_up.contains(LeafOf(round, contributor));
  }
  Round* RandomRound();
  std::unique_ptr<LeafLink> Connect(const TreeNode& caller, const Leaf& leaf);
  void StartRoot();
  // Returns whether the status is an error that a disk explains.
  bool IsFullDisk(const absl::Status& status);
  std::vector<TreeNode*> Nodes();

  // Each performs one step and returns what does not hold, or "".
  std::string Step();
  std::string Create();
  std::string Submit();
  // `node_id`: a leaf; empty: the root.
  std::string SubmitAt(Round& round, const std::string& contributor, const std::string& node_id,
                       const std::string& update_id);
  std::string CheckReceipt(Round& round, const std::string& contributor, const Receipt& receipt);
  std::string CheckRefusal(const Round& round, const std::string& contributor,
                           const std::string& update_id, const absl::Status& refusal);
  std::string Seal();
  std::string AbortOrDelete();
  std::string WorkOnLeaf();
  std::string WorkOnOwner();
  std::string WorkOnAll();
  std::string Read();
  std::string Tick();
  std::string RunTask();
  std::string ChangeConnection();
  std::string Kill();
  std::string LoseLeaf();
  std::string PassTime();

  std::string RestartCrashed();
  std::string Check();
  std::string CheckRound(Round& round);
  // Returns whether what has happened explains that the tree has ended the round.
  bool MayFail(const Round& round, std::string_view failure) const;
  std::string CheckPublished(Round& round, const RoundSnapshot& seen);
  std::string CheckCounted(Round& round, const PublishedResult& result);
  // Sets `entries` to row and value of each entry of the first tensor; returns false while an owner
  // does not have its part.
  bool ReadEntries(const PublishedResult& result, std::map<int64_t, float>& entries);
  // Gives the counted updates to a server without leaves.
  std::string CompareWithOneServer(Round& round, const Manifest& manifest);
  std::string IdOf(const Round& round, const std::string& contributor);
  // Reads the result as a client does.
  std::string CheckBytes(const Round& round, bool all_answer);
  std::string CheckAtEnd(Round& round);
  std::string End();
  void WorkUntilIdle();

  std::mt19937_64 random_;
  const std::function<void(const std::string&)> log_;
  std::chrono::system_clock::time_point now_{std::chrono::hours(24 * 365 * 50)};
  const std::unique_ptr<Backend> backend_;
  bool loses_answers_ = true;
  std::unique_ptr<TreeNode> root_;
  std::unique_ptr<TreeNode> one_;  // a server without leaves, to which nothing happens
  std::map<std::string, std::unique_ptr<TreeNode>> leaves_;  // by id
  std::vector<Leaf> list_;
  std::unique_ptr<TreeRounds> tree_;
  std::vector<Round> rounds_;
  TreeCounts counts_;
};

}  // namespace sparseagg::sim

#endif  // SPARSEAGG_TESTS_SIM_TREE_SIMULATION_H_

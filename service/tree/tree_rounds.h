// The rounds of a root: it opens each on its leaves, seals them, takes their partial aggregates
// into its own round, publishes, and erases them.
//
//   CreateRound   own round stored -> row stored -> created at each leaf -> answered
//   SealRound     row says "sealing" -> answered; then, for each leaf at its own pace:
//                 sealed -> published -> its bytes uploaded into the own round -> counted
//                 and when every leaf is counted, or given up: the own round is sealed
//   DeleteRound   own round deleted; then erased at each leaf -> row erased
//
// Each step may be repeated, and what is done is read from the own store: a leaf is done when the
// store has the update of its sender. So a process that is killed anywhere goes on where it was. A
// leaf that is given up is counted as an empty partial aggregate with the update_id kGivenUpId:
// the store accepts this or the leaf's own, never both.
#ifndef SPARSEAGG_SERVICE_TREE_TREE_ROUNDS_H_
#define SPARSEAGG_SERVICE_TREE_TREE_ROUNDS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/engine/engine.h"
#include "service/store/task_row_store.h"
#include "service/tree/leaf_link.h"
#include "service/tree/tree_row.h"

namespace sparseagg {

struct TreeOptions {
  std::vector<Leaf> leaves;  // of new rounds; none: this server is no root of new ones
  std::function<std::unique_ptr<LeafLink>(const Leaf&)> connect;
  std::function<std::chrono::system_clock::time_point()> now = [] {
    return std::chrono::system_clock::now();
  };
  // How often a leaf is asked for the contributors of an open round, if nothing depends on them.
  std::chrono::milliseconds poll_interval{5000};
  std::chrono::milliseconds goal_poll_interval{250};
  std::chrono::milliseconds wait_timeout{2000};  // of one call that waits for a leaf
  // Called with what operators should know.
  std::function<void(std::string_view event, const std::string& round, const std::string& detail)>
      log = [](std::string_view, const std::string&, const std::string&) {};
};

// Thread-safe. For each leaf, WorkOn() is called by one thread at a time.
class TreeRounds {
 public:
  // `engine` and `store` are the root's; `rows`: null without a data directory. They must outlive
  // this.
  TreeRounds(TreeOptions options, Engine& engine, const UpdateStore& store, TaskRowStore* rows);

  // Takes up the rounds that the store has kept. Call it after Engine::Recover().
  absl::Status Recover();

  // Errors besides those of Engine: UNAVAILABLE (LEAF_UNAVAILABLE) names a leaf that does not
  // answer; the round exists and the call can be repeated. A leaf that refuses the round makes the
  // call fail with the leaf's error, and the round is deleted.
  absl::StatusOr<RoundSnapshot> Create(CreateRoundArgs args);
  absl::StatusOr<RoundSnapshot> Seal(std::string_view name);
  // Returns the snapshot as callers see it: SEALED while the leaves are being sealed, and with the
  // contributors that the leaves have.
  RoundSnapshot Shown(RoundSnapshot snapshot) const;

  // The ids of all leaves of configured and stored rounds.
  std::vector<std::string> LeafIds() const;
  // Does what this leaf has to do now in each round. Returns whether more can be done at once.
  bool WorkOn(const std::string& leaf);
  // Does what depends on all leaves: policies, giving up, sealing, forgetting.
  void Tick();

  std::vector<LeafStatus> Leaves() const;
  void Cancel();  // ends the calls to leaves

 private:
  using Time = std::chrono::system_clock::time_point;

  struct LeafState {
    Leaf leaf;
    bool created = false;
    bool sealed = false;
    bool lost = false;   // it has no round any more, or an aborted one
    bool ended = false;  // aborted after the own round was
    bool erased = false;
    uint64_t contributors = 0;
    Time polled;
    Time progress;  // since the seal
  };
  struct TreeRound {
    std::string name;
    TreeRow row;
    std::map<std::string, LeafState> leaves;
  };
  struct Server {
    Leaf leaf;
    std::shared_ptr<LeafLink> link;
    bool up = false;
    Time answered;
    std::string error;
    uint64_t partial_bytes = 0;
    uint64_t given_up = 0;
  };

  absl::Status CheckArgs(const CreateRoundArgs& args) const;
  absl::Status Store(const TreeRound& round, bool more_work);
  // Returns the round, which it adds if it is new.
  std::shared_ptr<TreeRound> TrackLocked(const std::string& name, TreeRow row);
  std::shared_ptr<TreeRound> Find(std::string_view name) const;
  absl::Status CheckNameIsFree(const CreateRoundArgs& args) const;
  std::vector<std::shared_ptr<TreeRound>> All() const;
  Server& ServerLocked(const Leaf& leaf);
  std::shared_ptr<LeafLink> LinkTo(const std::string& leaf);
  // Records the outcome of a call to a leaf, and returns it.
  absl::Status Note(const std::string& leaf, absl::Status outcome);
  template <class T>
  absl::StatusOr<T> Note(const std::string& leaf, absl::StatusOr<T> outcome) {
    Note(leaf, outcome.status()).IgnoreError();
    return outcome;
  }
  template <class F>
  void Change(TreeRound& round, const std::string& leaf, const F& change) {
    const std::lock_guard lock(mutex_);
    change(round.leaves.at(leaf));
  }
  LeafState StateOf(const TreeRound& round, const std::string& leaf) const {
    const std::lock_guard lock(mutex_);
    return round.leaves.at(leaf);
  }

  absl::Status CreateAt(TreeRound& round, const std::string& leaf, const RoundSnapshot& own);
  bool WorkOnRound(TreeRound& round, const std::string& leaf);
  void Poll(TreeRound& round, const std::string& leaf, const RoundSnapshot& own);
  bool Collect(TreeRound& round, const std::string& leaf);
  absl::Status Receive(TreeRound& round, const std::string& leaf, const LeafPartial& partial,
                       LeafLink& link);
  void EndAt(TreeRound& round, const std::string& leaf);
  void EraseAt(TreeRound& round, const std::string& leaf);
  bool IsCounted(const TreeRound& round, const std::string& leaf) const;
  absl::Status GiveUp(TreeRound& round, const std::string& leaf, const RoundSpec& spec);
  void TickRound(TreeRound& round);
  void ApplyPolicy(TreeRound& round, const RoundSnapshot& own, Time now);
  void Finish(TreeRound& round, const RoundSnapshot& own, Time now);
  absl::Status BeginSeal(TreeRound& round);
  absl::Status CheckMinimum(TreeRound& round, const RoundSnapshot& own);
  uint64_t ContributorsOf(const TreeRound& round) const;

  const TreeOptions options_;
  Engine& engine_;
  const UpdateStore& store_;
  TaskRowStore* const rows_;
  const Time start_;
  mutable std::mutex mutex_;  // guards all below and what it points to, except links
  std::map<std::string, std::shared_ptr<TreeRound>, std::less<>> rounds_;
  std::map<std::string, Server, std::less<>> servers_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TREE_TREE_ROUNDS_H_

// The rounds of a root: it opens each on its leaves, seals them, takes their partial aggregates
// into its own round, publishes, and erases them.
//
//   CreateRound   own round stored -> row stored -> created at each leaf -> answered
//   SealRound     row says "sealing" -> answered; then, for each leaf at its own pace:
//                 sealed -> published -> its bytes uploaded into the own round -> counted
//                 and when every leaf is counted, or given up: the own round is sealed
//                 With owners (spec.tree.owners), a leaf's bytes name its updates only, and before
//                 the seal: a round created at each owner -> published -> all parts hashed
//   DeleteRound   own round deleted; then erased at each leaf -> row erased
//
// Each step may be repeated, and what is done is read from the own store: a leaf is done when the
// store has the update of its sender. So a process that is killed anywhere goes on where it was. A
// leaf that is given up is counted as an empty partial aggregate with the update_id kGivenUpId:
// the store accepts this or the leaf's own, never both.
//
// open_rounds.cc opens rounds, leaf_work.cc and leaf_transfer.cc work at one leaf, seal_rounds.cc
// does what depends on all leaves, and owners/divide_rounds.cc what concerns owners.
#ifndef SPARSEAGG_SERVICE_TREE_TREE_ROUNDS_H_
#define SPARSEAGG_SERVICE_TREE_TREE_ROUNDS_H_

#include <atomic>
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
#include "service/tree/backoff.h"
#include "service/tree/leaf_link.h"
#include "service/tree/tree_row.h"

namespace sparseagg {

struct TreeOptions {
  std::vector<Leaf> leaves;  // of new rounds; none: this server is no root of new ones
  std::function<std::unique_ptr<LeafLink>(const Leaf&)> connect;
  std::function<std::chrono::system_clock::time_point()> now = [] {
    return std::chrono::system_clock::now();
  };
  // Measures leaf_wait.
  std::function<std::chrono::steady_clock::time_point()> steady_now = [] {
    return std::chrono::steady_clock::now();
  };
  // How often a leaf is asked for the contributors of an open round, and without and with a goal.
  std::chrono::milliseconds poll_interval{5000};
  std::chrono::milliseconds goal_poll_interval{250};
  // Of what is repeated until it succeeds: it begins with the first and doubles up to the second.
  std::chrono::milliseconds shortest_pause{10};
  std::chrono::milliseconds longest_pause{1000};
  // A leaf that is no longer in `leaves` and silent for so long keeps its part of deleted rounds.
  std::chrono::milliseconds forget_after = std::chrono::hours(1);
  // Called with what operators should know.
  std::function<void(std::string_view event, const std::string& round, const std::string& detail)>
      log = [](std::string_view, const std::string&, const std::string&) {};
  // Called without locks when there is something to do before the time that was returned last.
  std::function<void()> on_work = [] {};
};

// Thread-safe. For each leaf, WorkOn() is called by one thread at a time; Transfer() by several, of
// which each takes other rounds.
class TreeRounds {
 public:
  // `engine` and `store` are the root's; `rows`: null without a data directory. They must outlive
  // this.
  TreeRounds(TreeOptions options, Engine& engine, const UpdateStore& store, TaskRowStore* rows);

  // Takes up the rounds that the store has kept. Call it after Engine::Recover().
  absl::Status Recover();
  // Returns whether there may be rounds with leaves. It does not change after Recover().
  bool has_leaves() const { return has_leaves_; }
  // Returns whether this is the root of the round.
  bool Has(std::string_view name) const { return has_leaves_ && Find(name) != nullptr; }

  // Errors besides those of Engine: UNAVAILABLE (LEAF_UNAVAILABLE) names a leaf that does not
  // answer; the round exists and the call can be repeated. A leaf that refuses the round makes the
  // call fail with the leaf's error, and the round is withdrawn everywhere: its name is free again.
  absl::StatusOr<RoundSnapshot> Create(CreateRoundArgs args);
  absl::StatusOr<RoundSnapshot> Seal(std::string_view name);
  // Returns the snapshot as callers see it: SEALED while the leaves are being sealed, with the
  // contributors that the leaves have, and with the addresses that the leaves have now.
  RoundSnapshot Shown(RoundSnapshot snapshot) const;
  // The result, or one that reads its rows from their owners.
  absl::StatusOr<std::shared_ptr<const PublishedResult>> Result(std::string_view name);
  // Of a divided result, each owner verifies its part, and the parts are hashed again. Errors
  // besides those of Engine: those of PartReader.
  absl::StatusOr<Verification> Verify(std::string_view name,
                                      const std::function<bool()>& cancelled);
  // Returns the error, with the address that the leaf has now if it is WRONG_LEAF.
  absl::Status WithAddress(const absl::Status& refusal) const;
  // Call it when the own round was aborted or deleted.
  void Changed(std::string_view name);

  // The ids of all leaves of configured and stored rounds.
  std::vector<std::string> LeafIds() const;
  // These do what is due, and return when to call them again: what this leaf has to do in each
  // round; the transfer of its partial aggregates, which may take long; and what depends on all
  // leaves: policies, giving up, sealing, forgetting.
  Backoff::Time WorkOn(const std::string& leaf);
  Backoff::Time Transfer(const std::string& leaf);
  Backoff::Time Tick();

  std::vector<LeafStatus> Leaves() const;
  void Cancel();  // ends the calls to leaves

 private:
  using Time = std::chrono::system_clock::time_point;
  using Milliseconds = std::chrono::milliseconds;

  // After what the own engine or store has refused.
  static constexpr Milliseconds kRetryPause{100};

  struct Server {
    Leaf leaf;
    std::shared_ptr<LeafLink> link;
    bool up = false;
    std::optional<Time> asked;  // last
    Time answered;
    Backoff::Time heard;  // the same by the steady clock
    Backoff::Time sent;   // new bytes of a partial aggregate, of any round
    std::string error;
    uint64_t partial_bytes = 0;
    uint64_t given_up = 0;
  };
  // The round of a leaf that is an owner.
  struct PartState {
    bool created = false;
    std::optional<OwnerRound> published;
    std::string failure;  // why it will not be published; empty: it may
    bool ended = false;   // erased after the own round was aborted or deleted
  };
  // How far a round with owners is, since all leaves are counted or given up.
  struct Dividing {
    Backoff::Time since;
    std::vector<Leaf> leaves;  // that are not given up
    std::vector<ResultPart> parts;
    bool is_hashing = false;
    std::optional<DividedResult> result;  // once they are hashed
  };
  struct LeafState {
    std::shared_ptr<Server> server;
    bool created = false;
    std::optional<Backoff::Time> sealed;  // since when
    bool published = false;               // its partial aggregate can be read
    bool transferred = false;             // there is nothing more to transfer
    bool transferring = false;
    std::string lost;     // why its round will never be counted; empty: it may be
    std::string refusal;  // why the own round does not take its partial aggregate; empty: it may
    bool ended = false;   // aborted after the own round was
    bool erased = false;
    // Since when it has been silent: since the seal, the last answer that it is at work on its
    // partial aggregate, or the last bytes of it.
    Backoff::Time silent_since;
    std::optional<Backoff::Time> queued;  // since when its partial aggregate waits for Transfer()
    bool is_here = false;                 // all bytes of it are here, and the own round takes them
    uint64_t contributors = 0;
    LeafRound seen;         // by the thread of WorkOn(), in the order of the answers
    uint64_t received = 0;  // bytes of its partial aggregate
    PartState part;
    Backoff work;
    Backoff transfer;
  };
  struct TreeRound {
    std::string name;
    std::mutex opening;  // held while a leaf is asked to create the round
    std::mutex storing;  // held while the row is written, so that rows are written in order
    TreeRow row;         // as stored
    bool is_stored = false;
    std::map<std::string, LeafState> leaves;
    std::optional<Dividing> dividing;
    Backoff tick;
    std::optional<Backoff::Time> expected_tick;  // when Tick() wanted to come again
  };
  // What to do after a look at a round: wait for a fixed time, or longer each time.
  struct Next {
    Milliseconds pause{0};
    bool doubles = false;
  };
  Next Repeat() const { return {.doubles = true}; }
  Next Idle() const { return {options_.poll_interval}; }
  Next WaitToPublish(const LeafState& before, std::optional<Milliseconds> leaf_wait) const;

  absl::Status CheckArgs(const CreateRoundArgs& args) const;
  absl::Status CheckNameIsFree(const CreateRoundArgs& args) const;
  // Writes the row that `change` has changed, and then keeps it; nothing changes after an error, or
  // if `change` returns false.
  absl::Status Store(TreeRound& round, bool more_work, const std::function<bool(TreeRow&)>& change);
  // Returns the round, which it adds if it is new.
  std::shared_ptr<TreeRound> TrackLocked(const std::string& name, TreeRow row);
  std::shared_ptr<TreeRound> Find(std::string_view name) const;
  std::vector<std::shared_ptr<TreeRound>> All() const;
  bool IsConfigured(const std::string& leaf) const;
  // Returns the configured address, and that of the round for a leaf that is not configured.
  const std::string& AddressOf(const Leaf& leaf) const;
  std::shared_ptr<Server> ServerLocked(const Leaf& leaf);
  std::shared_ptr<LeafLink> LinkTo(const TreeRound& round, const std::string& leaf) const;
  // Asks a leaf that no round has asked for a poll interval, so that Leaves() is true of it.
  void GreetIfUnasked(const std::string& leaf);
  // Names a leaf that does not answer, of those whose partial aggregates are not here. OK: none.
  static absl::Status StallLocked(const TreeRound& round);
  void NoteLocked(Server& server, const absl::Status& outcome);
  // Records the outcome of a call to a leaf, and returns it.
  absl::Status Note(const TreeRound& round, const std::string& leaf, absl::Status outcome);
  template <class T>
  absl::StatusOr<T> Note(const TreeRound& round, const std::string& leaf,
                         absl::StatusOr<T> outcome) {
    Note(round, leaf, outcome.status()).IgnoreError();
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
  bool IsSealing(const TreeRound& round) const {
    const std::lock_guard lock(mutex_);
    return round.row.sealing.has_value();
  }
  // Calls `work` for each round of the leaf whose back-off is due, and returns when the next is.
  // `work` returns nullopt if there is nothing to do until on_work().
  Backoff::Time ForEachDue(const std::string& leaf, Backoff LeafState::*backoff,
                           const std::function<std::optional<Next>(TreeRound&)>& work);
  void WakeTick(TreeRound& round);
  void WakeAll(TreeRound& round);

  absl::Status OpenAtLeaves(TreeRound& round, const RoundSnapshot& own);
  absl::Status CreateAt(TreeRound& round, const std::string& leaf, const RoundSnapshot& own);
  void Withdraw(TreeRound& round, const RoundSnapshot& own);

  Next WorkOnRound(TreeRound& round, const std::string& leaf);
  bool CreateAgain(TreeRound& round, const std::string& leaf);
  Next Poll(TreeRound& round, const std::string& leaf, const RoundSnapshot& own);
  Next SealAt(TreeRound& round, const std::string& leaf, const RoundSnapshot& own);
  // Returns whether the leaf's round of this name belongs to another round than this; NOT_FOUND if
  // it has none.
  absl::StatusOr<bool> IsForeign(TreeRound& round, const std::string& leaf);
  Next EndAt(TreeRound& round, const std::string& leaf);
  Next EraseAt(TreeRound& round, const std::string& leaf);
  bool IsCounted(const TreeRound& round, const std::string& leaf) const;

  // Another for each round of a name, of each root.
  static std::string IdOf(const RoundSnapshot& own);
  // What the names of the owners' rounds begin with; empty: the result is not divided.
  static std::string PartsPrefix(const RoundSnapshot& own);
  std::string PartName(const TreeRound& round, const std::string& leaf) const;
  absl::Status BeginDividing(TreeRound& round, const RoundSnapshot& own);
  Milliseconds Divide(TreeRound& round, const RoundSnapshot& own);
  Next WorkOnPart(TreeRound& round, const std::string& leaf, const RoundSnapshot& own);
  Next CreatePart(TreeRound& round, const RoundSnapshot& own, const ResultPart& part,
                  const std::vector<Leaf>& leaves);
  // Erases what an owner has, if anything. Returns an error if it has to be tried again.
  absl::Status EndPart(TreeRound& round, const std::string& leaf);
  // Hashes the parts when all are published. The leaf that owns the first one does it.
  std::optional<Next> HashParts(TreeRound& round, const std::string& leaf);
  std::optional<Next> HashPublished(TreeRound& round);
  bool IsDividing(const TreeRound& round) const {
    const std::lock_guard lock(mutex_);
    return round.dividing.has_value();
  }
  bool HasPart(const TreeRound& round, const std::string& leaf) const;
  bool IsOver(const TreeRound& round) const;
  std::map<std::string, std::shared_ptr<LeafLink>> LinksTo(const std::vector<ResultPart>& parts);
  std::shared_ptr<PartReader> ReaderOf(const std::vector<ResultPart>& parts);
  // Returns whether the leaf's round will never be counted: it has none, an aborted one, or one
  // that lacks updates that were seen there.
  bool Look(TreeRound& round, const std::string& leaf, const absl::StatusOr<LeafRound>& there);

  std::optional<Next> TransferRound(TreeRound& round, const std::string& leaf);
  std::optional<Next> TransferPublished(TreeRound& round, const std::string& leaf,
                                        const LeafState& state);
  // Returns whether the own round still lacks what the leaf has.
  bool IsAwaited(const TreeRound& round, const std::string& leaf) const;
  std::optional<Next> EndTransfer(TreeRound& round, const std::string& leaf);
  // Sets `own` to an error of the own round, and returns one of the leaf.
  absl::Status Receive(TreeRound& round, const std::string& leaf, const LeafState& state,
                       LeafPartial& partial, absl::Status& own);
  // The rows of a partial aggregate that the own round takes; nullopt: all.
  std::optional<RowRange> RowsTaken(const TreeRound& round) const;
  void NoteReceived(TreeRound& round, const std::string& leaf, uint64_t end, bool is_all);
  std::optional<Next> NoteRefusal(TreeRound& round, const std::string& leaf,
                                  const absl::Status& refusal);

  // `late`: for how long it has not been called though it was due.
  Milliseconds TickRound(TreeRound& round, Milliseconds late);
  // A time in which this process did not run is no silence of its leaves.
  void Forgive(TreeRound& round);
  Milliseconds Forget(TreeRound& round);
  Milliseconds ApplyPolicy(TreeRound& round, const RoundSnapshot& own);
  Milliseconds Finish(TreeRound& round, const RoundSnapshot& own);
  Milliseconds SealOwn(TreeRound& round, const RoundSnapshot& own,
                       const std::optional<DividedResult>& divided);
  // Returns why the own round will never get what a leaf has; empty: it may.
  std::string Hopeless(const TreeRound& round) const;
  Milliseconds Abort(TreeRound& round, const std::string& failure);
  static constexpr char kOwnerFailed[] = "OWNER_FAILED: ";
  static constexpr char kOwnerLost[] = "OWNER_LOST: ";
  // Returns whether Abort() was called with it.
  static bool IsFailureOfTree(std::string_view failure);
  absl::Status GiveUp(TreeRound& round, const std::string& leaf, const RoundSpec& spec);
  absl::Status BeginSeal(TreeRound& round, bool at_goal);
  absl::Status CheckMinimum(TreeRound& round, const RoundSnapshot& own);
  uint64_t ContributorsOf(const TreeRound& round) const;
  // Sets the addresses that the owners have now.
  void ShowAddresses(Manifest& manifest) const;

  const TreeOptions options_;
  Engine& engine_;
  const UpdateStore& store_;
  TaskRowStore* const rows_;
  const Time start_;
  bool has_leaves_ = false;
  std::atomic<bool> is_cancelled_ = false;
  mutable std::mutex mutex_;  // guards all below and what it points to, except links and mutexes
  std::map<std::string, std::shared_ptr<TreeRound>, std::less<>> rounds_;
  std::map<std::string, std::shared_ptr<Server>, std::less<>> servers_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TREE_TREE_ROUNDS_H_

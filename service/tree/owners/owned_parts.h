// The rounds of an owner: this server owns ranges of the rows of results that its root has divided.
// For each, it takes the partial aggregates of these rows from all leaves, itself included, and
// then seals its round, whose result is the part.
//
//   CreateRound (by the root)   own round stored -> answered
//   for each leaf               its bytes uploaded into the own round -> counted
//   all leaves counted          the own round is sealed, and published
//
// What is done is read from the own store, so a process that is killed anywhere goes on where it
// was. The owner gives no leaf up: the root decides which leaves there are, and ends the round. But
// the root may reach a leaf that the owner does not. So the owner's round has the leaf_wait of the
// root's, and fails when a leaf has sent nothing for so long, which the root sees.
#ifndef SPARSEAGG_SERVICE_TREE_OWNERS_OWNED_PARTS_H_
#define SPARSEAGG_SERVICE_TREE_OWNERS_OWNED_PARTS_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "service/engine/engine.h"
#include "service/store/store.h"
#include "service/tree/backoff.h"
#include "service/tree/leaf_link.h"

namespace sparseagg {

struct OwnerOptions {
  std::vector<Leaf> peers;  // the leaves that this server may call; none: it owns nothing
  std::function<std::unique_ptr<LeafLink>(const Leaf&)> connect;
  std::function<std::chrono::steady_clock::time_point()> now = [] {
    return std::chrono::steady_clock::now();
  };
  // Of what is repeated until it succeeds: it begins with the first and doubles up to the second.
  std::chrono::milliseconds shortest_pause{10};
  std::chrono::milliseconds longest_pause{1000};
  // Without anything to do.
  std::chrono::milliseconds idle_pause{5000};
  std::function<void(std::string_view event, const std::string& round, const std::string& detail)>
      log = [](std::string_view, const std::string&, const std::string&) {};
};

// Thread-safe. For each peer, Work() is called by one thread at a time.
class OwnedParts {
 public:
  // `engine` and `store` must outlive this.
  OwnedParts(OwnerOptions options, Engine& engine, const UpdateStore& store);

  // Returns FAILED_PRECONDITION (UNKNOWN_PEER) if a leaf of a round with owners is not a peer.
  absl::Status CheckTree(const RoundTree& tree) const;
  std::vector<std::string> PeerIds() const;
  // Takes from this peer what the rounds lack, and returns when to call it again.
  Backoff::Time Work(const std::string& peer);
  // A round was created: Work() of all peers is due.
  void Wake();
  void Cancel();  // ends the calls to peers

 private:
  // Returns whether it should be tried again.
  bool Take(const RoundSnapshot& round, const std::string& peer);
  bool NoteFailure(const RoundSnapshot& round, const std::string& peer, const absl::Status& failed);
  // Logs an error of a peer that is another than the last one.
  void LogError(const RoundSnapshot& round, const std::string& peer, const absl::Status& failed);
  void Fail(const RoundSnapshot& round, const std::string& failure);
  bool IsCounted(const RoundSnapshot& round, const std::string& leaf) const;
  // The rounds of this owner that are open, the oldest first. Forgets what was kept of others.
  std::vector<RoundSnapshot> OpenRounds();
  // Begins to wait for the leaf if it has not been asked yet for the round's rows.
  void NoteAsked(const std::string& round, const std::string& leaf);
  // Ends a round for which a leaf was asked and has sent nothing, to this round or another, for the
  // round's leaf_wait.
  void EndIfLate(const RoundSnapshot& round);

  const OwnerOptions options_;
  Engine& engine_;
  const UpdateStore& store_;
  std::map<std::string, std::unique_ptr<LeafLink>, std::less<>> links_;  // [peers], by id
  std::mutex mutex_;                                                     // guards what follows
  std::map<std::string, Backoff, std::less<>> backoffs_;                 // [peers], by id
  std::map<std::string, std::string> errors_;                            // the last one, by peer
  // By round and leaf: when it was first asked by this process.
  std::map<std::string, std::map<std::string, std::chrono::steady_clock::time_point>> asked_;
  // By leaf: when it last sent something. It sends rounds one after the other, so the others wait.
  std::map<std::string, std::chrono::steady_clock::time_point> heard_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TREE_OWNERS_OWNED_PARTS_H_

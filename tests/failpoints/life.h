// What the walk over the failpoints interrupts: a server without a network, and five rounds that
// live through everything a round can. Every answer is noted; whatever is done again after a
// restart is answered as a retry.
#ifndef SPARSEAGG_TESTS_FAILPOINTS_LIFE_H_
#define SPARSEAGG_TESTS_FAILPOINTS_LIFE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "service/engine/engine.h"
#include "service/store/durable_store.h"
#include "service/store/failpoints.h"
#include "tests/support/manual_executor.h"

namespace sparseagg::testing {

// Store and engine on one thread.
class LocalServer {
 public:
  static absl::StatusOr<std::unique_ptr<LocalServer>> Start(const std::string& folder,
                                                            FailpointHook hook = {});
  ~LocalServer() { executor_.DropAll(); }

  Engine& engine() { return *engine_; }
  // Runs what is queued, and what is delayed.
  void Settle();

 private:
  LocalServer() = default;

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<UpdateStore> store_;
  ManualExecutor executor_;
  std::unique_ptr<Engine> engine_;
};

// An answer that was given, or (the second form) a request that was about to be made:
//
//   created R | counted R C SEQUENCE DIGEST | sealed R | published R DIGEST | aborted R | deleted R
//   aborting R | deleting R
using Notes = std::vector<std::string>;
using Note = std::function<void(const std::string&)>;

// Lives all five lives, from wherever they are. An error that says when to come back is answered by
// coming back.
absl::Status Live(LocalServer& server, const Note& note);

// What is left when all is lived: one line for each round. The open round is sealed for that.
std::string Outcome(LocalServer& server);

// What of the notes is not honoured; empty: nothing.
std::string Broken(LocalServer& server, const Notes& notes);

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_FAILPOINTS_LIFE_H_

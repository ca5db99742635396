// The workload that the failpoint tests interrupt: a server without a network, and five rounds that
// together go through every state. Every answer is noted; requests that are repeated after a
// restart are answered as retries.
#ifndef SPARSEAGG_TESTS_FAILPOINTS_WORKLOAD_H_
#define SPARSEAGG_TESTS_FAILPOINTS_WORKLOAD_H_

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
  // Runs all queued and delayed tasks.
  void Settle();

 private:
  LocalServer() = default;

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<UpdateStore> store_;
  ManualExecutor executor_;
  std::unique_ptr<Engine> engine_;
};

// An answer that was received or, in the second line, a request that was about to be sent:
//
//   created R | counted R C SEQUENCE DIGEST | sealed R | published R DIGEST | aborted R | deleted R
//   aborting R | deleting R
using Notes = std::vector<std::string>;
using Note = std::function<void(const std::string&)>;

// Takes all five rounds to their ends, from whatever state they have. Retries after an error with a
// time to retry after.
absl::Status RunWorkload(LocalServer& server, const Note& note);

// Returns the final state, one line for each round. Seals the open round first.
std::string FinalState(LocalServer& server);

// Returns the first note that the server does not honour; empty: none.
std::string FirstBrokenNote(LocalServer& server, const Notes& notes);

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_FAILPOINTS_WORKLOAD_H_

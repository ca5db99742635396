// An engine with one open round, for targets that send it messages. What the engine says of the
// round is compared with what it answered.
#ifndef SPARSEAGG_TESTS_FUZZ_ENGINE_TARGET_H_
#define SPARSEAGG_TESTS_FUZZ_ENGINE_TARGET_H_

#include <memory>
#include <string>

#include "service/engine/engine.h"
#include "tests/support/manual_executor.h"

namespace sparseagg::fuzz {

class EngineTarget {
 public:
  EngineTarget();

  // An open round "rounds/r" without updates: of tensors "s" (f32, 100 rows), "w" (i32, rows of 3
  // values, 10 x 10) and "d" (f64, dense, 4). A new one when the last got an update.
  Engine& EngineWithRound();
  // A receipt that the engine gave, for an update of this header.
  void Note(const UpdateHeader& header, const absl::StatusOr<Receipt>& receipt);
  // Ends the process when the round's counts differ from the receipts.
  void CheckBooks();

 private:
  // What the engine left for later: folds, deletions.
  void RunTasks();

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<UpdateStore> store_;
  testing::ManualExecutor executor_;  // no threads: they would cost more than the inputs
  std::unique_ptr<Engine> engine_;
  bool fresh_ = false;
  uint64_t counted_ = 0;
};

}  // namespace sparseagg::fuzz

#endif  // SPARSEAGG_TESTS_FUZZ_ENGINE_TARGET_H_

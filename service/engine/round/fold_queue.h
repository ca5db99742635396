// The counted updates of a round that are not yet folded into its accumulators. Small updates are
// folded together: a fold is posted to the round's strand when kFoldBytesMin bytes are queued, and
// kFoldDelayMax after the first of fewer bytes.
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_FOLD_QUEUE_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_FOLD_QUEUE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "service/engine/ingest/tensor_reducers.h"
#include "service/engine/memory/admission.h"
#include "service/engine/round/executor.h"

namespace sparseagg {

// A counted update that is not yet folded into the accumulators.
struct UpdateToFold {
  StagedTensors staged;
  std::shared_ptr<RoundPartial> partial;  // in place of `staged`, if the update is one
  float weight = 1.0f;
  Reservation staging;  // memory of `staged`
  Reservation growth;   // aggregation memory
};

// Thread-safe.
class FoldQueue {
 public:
  // Folds a batch. Runs on the strand.
  using Fold = std::function<void(std::vector<UpdateToFold> batch)>;
  // Returns a reference to the object that contains the queue: posted folds keep it alive.
  using Owner = std::function<std::shared_ptr<const void>()>;

  // `executor` and `strand` must outlive the queue.
  FoldQueue(Executor& executor, Strand& strand, Fold fold, Owner owner);

  // Queues an update, and posts a fold if one is due.
  void Push(UpdateToFold update);
  // Posts a fold of all queued updates without waiting for more to arrive.
  void FoldNow();
  // Empties the queue and returns what was in it. A fold that is already posted finds nothing.
  std::vector<UpdateToFold> Drain();

 private:
  // The next fold is posted to the strand now, after a delay, or not at all.
  enum class Turn { kNone, kNow, kSoon };
  Turn NextTurnLocked();
  void Post(Turn turn);
  void RunTurn();

  Executor& executor_;
  Strand& strand_;
  const Fold fold_;
  const Owner owner_;

  std::mutex mutex_;  // guards all below
  std::vector<UpdateToFold> updates_;
  uint64_t bytes_ = 0;
  bool folding_ = false;  // a fold is posted or running
  bool due_ = false;      // a delayed fold is scheduled
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_FOLD_QUEUE_H_

// Restores rounds from the store. Accumulators are never stored: they are rebuilt from the accepted
// updates and have the same bits.
#ifndef SPARSEAGG_SERVICE_ENGINE_RESTORE_H_
#define SPARSEAGG_SERVICE_ENGINE_RESTORE_H_

#include "service/engine/engine.h"
#include "service/engine/memory/admission.h"
#include "service/engine/round/round.h"

namespace sparseagg {

struct Restored {
  CreateRoundArgs args;  // of the request that created the round
  RestoredRound round;
};

// Returns the error `why` with the name of the round that prevents the start of the server.
absl::Status RestoreError(const RoundRecord& record, const absl::Status& why);

class RoundRestorer {
 public:
  RoundRestorer(const EngineOptions& options, Backend& backend, UpdateStore& store,
                Admission& aggregation)
      : options_(options), backend_(backend), store_(store), aggregation_(aggregation) {}

  // Restores one round. A round that is damaged, or that the back end has no memory for, is
  // restored as ABORTED with the cause as its failure. Other errors name the round.
  absl::StatusOr<Restored> Restore(const RoundRecord& record) const;

 private:
  absl::Status RestoreInto(const RoundRecord& record, Restored& restored) const;
  absl::Status RestoreClock(const RoundRecord& record, RestoredRound& round) const;
  absl::Status FoldUpdates(const RoundRecord& record, RestoredRound& round) const;
  absl::Status LoadResult(const RoundRecord& record, RestoredRound& round) const;

  const EngineOptions& options_;
  Backend& backend_;
  UpdateStore& store_;
  Admission& aggregation_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_RESTORE_H_

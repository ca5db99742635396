// Publishes the result of a sealed round: computes it, checks it, stores it and makes it readable.
// It also erases the updates of a round that has ended. What the disk has no room for is retried.
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_ROUND_PUBLISHER_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_ROUND_PUBLISHER_H_

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "service/engine/ingest/tensor_reducers.h"
#include "service/engine/round/executor.h"
#include "service/engine/types.h"

namespace sparseagg {

class Round;
struct RoundServices;

// A part of its round; posted tasks keep the round alive.
class RoundPublisher {
 public:
  RoundPublisher(Round& round, const RoundServices& services, Strand& strand)
      : round_(round), services_(services), strand_(strand) {}

  // Publishes the sums of `reducers`, in which the updates `closed` are folded. A round whose
  // result cannot be computed, or differs from the reference, ends with that error. Runs on the
  // strand.
  void Publish(TensorReducers& reducers, std::vector<UpdateRecord> closed);
  // Schedules the erasure of a durable round's updates.
  void ScheduleErasure();
  // Tells the observer, at most once in kStallReportInterval, why the round cannot continue.
  void ReportStall(const absl::Status& refusal);

 private:
  // Computes the result again if EngineOptions::verify_share selects this round. Returns DATA_LOSS
  // (RESULT_MISMATCH) if a bit differs.
  absl::Status SpotCheck(const PublishedResult& result);
  // Stores the result and makes it readable. While the disk is full, it schedules a retry.
  void StoreResult(std::shared_ptr<PublishedResult> result, const RoundSnapshot& published);
  void ErasePayloads();

  Round& round_;
  const RoundServices& services_;
  Strand& strand_;
  std::mutex mutex_;                                         // guards next_stall_report_
  std::chrono::steady_clock::time_point next_stall_report_;  // at the earliest
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_ROUND_PUBLISHER_H_

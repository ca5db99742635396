// Prometheus counters and histograms, which the engine, the RPC layer and the store update through
// their observers. Gauges, which are computed at each scrape, are in gauges.h. docs/metrics.md
// lists all of them; a test compares.
#ifndef SPARSEAGG_SERVICE_ADMIN_METRICS_H_
#define SPARSEAGG_SERVICE_ADMIN_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "service/engine/engine.h"
#include "service/rpc/call_observer.h"

namespace sparseagg {

// Sums since the start of the process; the source of the status page's charts.
struct Totals {
  uint64_t accepted = 0;
  uint64_t duplicates = 0;
  uint64_t refused = 0;
  uint64_t payload_bytes = 0;
  uint64_t nnz = 0;
  uint64_t calls = 0;
  std::vector<uint64_t>
      submit_buckets;  // not cumulative; the last one counts values above all bounds
};

// Upper bounds of the histograms of durations, in seconds.
const std::vector<double>& SecondsBuckets();

// Thread-safe.
class Metrics : public EngineObserver, public CallObserver {
 public:
  Metrics();

  void OnRoundState(const RoundSnapshot& round) override;
  void OnSubmission(const SubmissionReport& report) override;
  void OnReduction(const ReductionReport& report) override;
  void OnVerification(const VerificationReport& report) override;
  void OnMethod(const CallMethod& method) override;
  void OnCallStarted(const CallMethod& method) override;
  void OnMessage(const CallMethod& method, uint64_t bytes_in, uint64_t bytes_out) override;
  void OnCallEnded(const CallMethod& method, const CallReport& report) override;
  void OnCommit(size_t updates, double seconds);
  // The GPU has failed, and the CPU is used until the process ends.
  void OnBackendLost();
  void OnHttpConnections(size_t open);

  Totals totals() const;
  // Numbers of verifications by outcome: equal to the reference's result, different, or not
  // possible.
  struct Verifications {
    uint64_t verified = 0;
    uint64_t mismatched = 0;
    uint64_t not_verified = 0;
  };
  Verifications verifications() const;
  // Refusals by reason, without reasons that have not occurred.
  std::map<std::string, uint64_t> refusals() const;
  // The measured and predicted seconds of the reductions of one plan.
  struct PlanSeconds {
    std::string backend;
    std::string plan;
    double seconds = 0;
    double predicted_seconds = 0;
  };
  std::vector<PlanSeconds> plans() const;

  const prometheus::Registry& registry() const { return registry_; }

 private:
  struct MethodMetrics {
    prometheus::Labels labels;
    prometheus::Counter* started;
    prometheus::Histogram* seconds;
    prometheus::Counter* bytes_in;
    prometheus::Counter* bytes_out;
  };
  MethodMetrics& Of(const CallMethod& method);
  prometheus::Counter& HandledWith(const MethodMetrics& metrics, absl::StatusCode code);
  prometheus::Counter& RefusedFor(const std::string& reason, bool retry);

  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& calls_started_;
  prometheus::Family<prometheus::Counter>& calls_handled_;
  prometheus::Family<prometheus::Histogram>& call_seconds_;
  prometheus::Family<prometheus::Counter>& bytes_received_;
  prometheus::Family<prometheus::Counter>& bytes_sent_;
  prometheus::Family<prometheus::Counter>& updates_;
  prometheus::Family<prometheus::Counter>& refusals_;
  prometheus::Family<prometheus::Counter>& reduce_seconds_;
  prometheus::Family<prometheus::Counter>& reduce_predicted_seconds_;
  prometheus::Family<prometheus::Counter>& round_changes_;
  prometheus::Family<prometheus::Counter>& verifications_;
  prometheus::Counter& accepted_;
  prometheus::Counter& duplicates_;
  prometheus::Counter& refused_;
  prometheus::Counter& payload_bytes_;
  prometheus::Counter& nnz_;
  prometheus::Counter& verified_;
  prometheus::Counter& mismatched_;
  prometheus::Counter& not_verified_;
  prometheus::Histogram& submit_seconds_;
  prometheus::Histogram& publish_seconds_;
  prometheus::Histogram& commit_seconds_;
  prometheus::Histogram& commit_updates_;
  prometheus::Gauge& backend_lost_;
  prometheus::Gauge& http_connections_;

  std::shared_mutex mutex_;
  std::map<std::string, MethodMetrics, std::less<>> methods_;  // by path; only grows
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ADMIN_METRICS_H_

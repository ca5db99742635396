#include "service/admin/metrics.h"

#include <chrono>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "service/engine/observer.h"

namespace sparseagg {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Histogram;
using prometheus::Labels;

Family<Counter>& NewCounter(prometheus::Registry& registry, const std::string& name,
                            const std::string& help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

Family<Histogram>& NewHistogram(prometheus::Registry& registry, const std::string& name,
                                const std::string& help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

// The values that other gRPC servers use for this label.
const char* TypeOf(CallKind kind) {
  switch (kind) {
    case CallKind::kUnary:
      return "unary";
    case CallKind::kClientStream:
      return "client_stream";
    case CallKind::kServerStream:
      return "server_stream";
    case CallKind::kBidiStream:
      return "bidi_stream";
  }
  return "unknown";
}

// A group has at most as many updates as there are waiting callers, which is 64 today.
const Histogram::BucketBoundaries kGroupBuckets = {1, 2, 4, 8, 16, 32, 64, 128};

// The common reasons, and those that alerts refer to. `retry`: the error has a retry hint.
struct KnownRefusal {
  const char* reason;
  bool retry;
};
constexpr KnownRefusal kKnownRefusals[] = {
    {"STAGING_FULL", true},        {"UPLOADS_FULL", true},
    {"STORE_FULL", true},          {"STORE_BUSY", true},
    {"TENANT_BYTES_FULL", true},   {"TENANT_UPLOADS_FULL", true},
    {"AGGREGATION_FULL", false},   {"OUT_OF_MEMORY", false},
    {"STORE_CORRUPT", false},      {"STORE_ERROR", false},
    {"INDEX_OUT_OF_RANGE", false}, {"NON_FINITE_VALUE", false},
    {"INVALID_WEIGHT", false},     {"SIZE_MISMATCH", false},
    {"TYPE_MISMATCH", false},      {"SHAPE_MISMATCH", false},
    {"UNKNOWN_TENSOR", false},     {"MISSING_TENSOR", false},
    {"MALFORMED_BLOCK", false},    {"CHECKSUM_MISMATCH", false},
    {"UPDATE_TOO_LARGE", false},   {"RESULT_NNZ_EXCEEDED", false},
    {"DIGEST_CONFLICT", false},    {"CONTRIBUTOR_ALREADY_COUNTED", false},
    {"ROUND_NOT_OPEN", false},     {"ROUND_FULL", false}};

uint64_t Value(const Counter& counter) { return static_cast<uint64_t>(counter.Value()); }

const std::string& LabelOf(const prometheus::ClientMetric& metric, std::string_view name) {
  static const std::string& none = *new std::string();
  for (const auto& label : metric.label) {
    if (label.name == name) return label.value;
  }
  return none;
}

}  // namespace

// From an update kept in memory (50 us) to the longest wait of a call.
const std::vector<double>& SecondsBuckets() {
  static const std::vector<double>& buckets =
      *new std::vector<double>{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                               0.1,    0.25,    0.5,    1,     2.5,    5,     10,   30};
  return buckets;
}

Metrics::Metrics()
    : calls_started_(NewCounter(registry_, "grpc_server_started_total", "Calls that began")),
      calls_handled_(NewCounter(registry_, "grpc_server_handled_total", "Calls that ended")),
      call_seconds_(NewHistogram(registry_, "grpc_server_handling_seconds",
                                 "Time from a call's headers to its status")),
      bytes_received_(NewCounter(registry_, "sparseagg_received_bytes_total",
                                 "Messages received by own calls, without framing")),
      bytes_sent_(NewCounter(registry_, "sparseagg_sent_bytes_total",
                             "Messages sent by own calls, without framing")),
      updates_(
          NewCounter(registry_, "sparseagg_updates_total", "Submissions of updates, by outcome")),
      refusals_(NewCounter(registry_, "sparseagg_refusals_total",
                           "Refused updates, by reason and by whether the error has a retry hint")),
      reduce_seconds_(NewCounter(registry_, "sparseagg_reduce_seconds_total",
                                 "Time that reductions took, by back end and plan")),
      reduce_predicted_seconds_(
          NewCounter(registry_, "sparseagg_reduce_predicted_seconds_total",
                     "Time that the planner predicted for reductions, by back end and plan")),
      round_changes_(NewCounter(registry_, "sparseagg_round_changes_total",
                                "State changes of rounds, by new state")),
      verifications_(NewCounter(registry_, "sparseagg_round_verifications_total",
                                "Verifications of the rounds chosen by verify-share, by outcome")),
      accepted_(updates_.Add({{"outcome", "accepted"}})),
      duplicates_(updates_.Add({{"outcome", "duplicate"}})),
      refused_(updates_.Add({{"outcome", "refused"}})),
      payload_bytes_(NewCounter(registry_, "sparseagg_update_payload_bytes_total",
                                "Payload of accepted updates")
                         .Add({})),
      nnz_(NewCounter(registry_, "sparseagg_update_nnz_total", "Entries of accepted updates")
               .Add({})),
      verified_(verifications_.Add({{"outcome", "verified"}})),
      mismatched_(verifications_.Add({{"outcome", "mismatch"}})),
      not_verified_(verifications_.Add({{"outcome", "not_verified"}})),
      submit_seconds_(NewHistogram(registry_, "sparseagg_submit_seconds",
                                   "Time to check, stage and store an update of a round")
                          .Add({}, SecondsBuckets())),
      publish_seconds_(NewHistogram(registry_, "sparseagg_publish_seconds",
                                    "Time from sealing a round to its published result")
                           .Add({}, SecondsBuckets())),
      commit_seconds_(NewHistogram(registry_, "sparseagg_store_commit_seconds",
                                   "Time of one commit of a group of updates")
                          .Add({}, SecondsBuckets())),
      commit_updates_(
          NewHistogram(registry_, "sparseagg_store_commit_updates", "Updates that shared a commit")
              .Add({}, kGroupBuckets)),
      backend_lost_(prometheus::BuildGauge()
                        .Name("sparseagg_backend_lost")
                        .Help("1 if the GPU has failed and rounds continue on the CPU")
                        .Register(registry_)
                        .Add({})),
      http_connections_(prometheus::BuildGauge()
                            .Name("sparseagg_http_connections")
                            .Help("Open connections of the HTTP edge")
                            .Register(registry_)
                            .Add({})) {
  // These counters exist from the start, at 0: rate() and increase() miss the first events of a
  // counter that appears with them.
  using enum RoundState;
  for (const RoundState state : {kOpen, kSealed, kPublished, kRetired, kAborted}) {
    round_changes_.Add({{"state", std::string(RoundStateName(state))}});
  }
  for (const KnownRefusal& known : kKnownRefusals) RefusedFor(known.reason, known.retry);
}

// --- Calls ---

Metrics::MethodMetrics& Metrics::Of(const CallMethod& method) {
  {
    const std::shared_lock lock(mutex_);
    const auto found = methods_.find(method.path);
    if (found != methods_.end()) return found->second;
  }
  const Labels labels = {{"grpc_type", TypeOf(method.kind)},
                         {"grpc_service", std::string(method.service)},
                         {"grpc_method", std::string(method.method)}};
  const Labels name = {{"grpc_method", std::string(method.method)}};
  const std::unique_lock lock(mutex_);
  return methods_
      .try_emplace(std::string(method.path),
                   MethodMetrics{.labels = labels,
                                 .started = &calls_started_.Add(labels),
                                 .seconds = &call_seconds_.Add(labels, SecondsBuckets()),
                                 .bytes_in = &bytes_received_.Add(name),
                                 .bytes_out = &bytes_sent_.Add(name)})
      .first->second;
}

Counter& Metrics::HandledWith(const MethodMetrics& metrics, absl::StatusCode code) {
  Labels labels = metrics.labels;
  labels["grpc_code"] = absl::StatusCodeToString(code);
  return calls_handled_.Add(labels);
}

void Metrics::OnMethod(const CallMethod& method) {
  const MethodMetrics& metrics = Of(method);
  constexpr int kLastCode = static_cast<int>(absl::StatusCode::kUnauthenticated);
  for (int code = 0; code <= kLastCode; ++code) {
    HandledWith(metrics, static_cast<absl::StatusCode>(code));
  }
}

void Metrics::OnCallStarted(const CallMethod& method) { Of(method).started->Increment(); }

void Metrics::OnMessage(const CallMethod& method, uint64_t bytes_in, uint64_t bytes_out) {
  const MethodMetrics& metrics = Of(method);
  if (bytes_in > 0) metrics.bytes_in->Increment(static_cast<double>(bytes_in));
  if (bytes_out > 0) metrics.bytes_out->Increment(static_cast<double>(bytes_out));
}

void Metrics::OnCallEnded(const CallMethod& method, const CallReport& report) {
  const MethodMetrics& metrics = Of(method);
  metrics.seconds->Observe(report.seconds);
  HandledWith(metrics, report.code).Increment();
}

// --- The engine and the store ---

void Metrics::OnRoundState(const RoundSnapshot& round) {
  round_changes_.Add({{"state", std::string(RoundStateName(round.state))}}).Increment();
  if (round.state != RoundState::kPublished || !round.seal_time || !round.publish_time) return;
  const std::chrono::duration<double> taken = *round.publish_time - *round.seal_time;
  publish_seconds_.Observe(taken.count());
}

void Metrics::OnSubmission(const SubmissionReport& report) {
  if (!report.status.ok()) {
    refused_.Increment();
    const std::string reason = ErrorReason(report.status);
    RefusedFor(reason.empty() ? "UNKNOWN" : reason, RetryAfterMs(report.status) > 0).Increment();
    return;
  }
  if (report.duplicate) return duplicates_.Increment();
  accepted_.Increment();
  payload_bytes_.Increment(static_cast<double>(report.payload_bytes));
  nnz_.Increment(static_cast<double>(report.nnz));
  submit_seconds_.Observe(report.seconds);
}

Counter& Metrics::RefusedFor(const std::string& reason, bool retry) {
  return refusals_.Add({{"reason", reason}, {"retry", retry ? "yes" : "no"}});
}

void Metrics::OnReduction(const ReductionReport& report) {
  const Labels labels = {{"backend", std::string(report.backend)},
                         {"plan", std::string(report.plan)}};
  reduce_seconds_.Add(labels).Increment(report.seconds);
  reduce_predicted_seconds_.Add(labels).Increment(report.predicted_seconds);
}

void Metrics::OnVerification(const VerificationReport& report) {
  const bool mismatch = ErrorReason(report.outcome) == kResultMismatch;
  (report.outcome.ok() ? verified_ : mismatch ? mismatched_ : not_verified_).Increment();
}

void Metrics::OnCommit(size_t updates, double seconds) {
  commit_seconds_.Observe(seconds);
  commit_updates_.Observe(static_cast<double>(updates));
}

void Metrics::OnBackendLost() { backend_lost_.Set(1); }

void Metrics::OnHttpConnections(size_t open) { http_connections_.Set(static_cast<double>(open)); }

// --- Reading ---

Totals Metrics::totals() const {
  Totals totals{.accepted = Value(accepted_),
                .duplicates = Value(duplicates_),
                .refused = Value(refused_),
                .payload_bytes = Value(payload_bytes_),
                .nnz = Value(nnz_)};
  uint64_t before = 0;
  for (const auto& bucket : submit_seconds_.Collect().histogram.bucket) {
    totals.submit_buckets.push_back(bucket.cumulative_count - before);
    before = bucket.cumulative_count;
  }
  for (const auto& family : calls_started_.Collect()) {
    for (const auto& metric : family.metric) {
      totals.calls += static_cast<uint64_t>(metric.counter.value);
    }
  }
  return totals;
}

Metrics::Verifications Metrics::verifications() const {
  return {.verified = Value(verified_),
          .mismatched = Value(mismatched_),
          .not_verified = Value(not_verified_)};
}

std::map<std::string, uint64_t> Metrics::refusals() const {
  std::map<std::string, uint64_t> by_reason;
  for (const auto& family : refusals_.Collect()) {
    for (const auto& metric : family.metric) {
      if (metric.counter.value == 0) continue;
      by_reason[LabelOf(metric, "reason")] += static_cast<uint64_t>(metric.counter.value);
    }
  }
  return by_reason;
}

std::vector<Metrics::PlanSeconds> Metrics::plans() const {
  std::map<std::pair<std::string, std::string>, PlanSeconds> plans;
  const auto add = [&plans](const Family<Counter>& counters, double PlanSeconds::*field) {
    for (const auto& family : counters.Collect()) {
      for (const auto& metric : family.metric) {
        PlanSeconds& row = plans[{LabelOf(metric, "backend"), LabelOf(metric, "plan")}];
        row.*field = metric.counter.value;
      }
    }
  };
  add(reduce_seconds_, &PlanSeconds::seconds);
  add(reduce_predicted_seconds_, &PlanSeconds::predicted_seconds);
  std::vector<PlanSeconds> rows;
  for (auto& [key, row] : plans) {
    row.backend = key.first;
    row.plan = key.second;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace sparseagg

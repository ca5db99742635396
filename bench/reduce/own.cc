#include "bench/reduce/own.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/reduce/child.h"
#include "bench/reduce/stopwatch.h"
#include "sparse/encodings/coo_packed.h"
#include "sparse/planner.h"
#include "sparse/validate.h"

namespace sparseagg::bench {
namespace {

struct Run {
  double seconds = 0;
  double stage_seconds = 0;
  uint64_t nnz = 0;
  uint64_t digest = 0;
  PlanReport report;
};

// Not a cryptographic one: it must tell results apart that differ by a bit somewhere.
uint64_t Mix(uint64_t digest, const void* data, size_t bytes) {
  const auto* at = static_cast<const std::byte*>(data);
  uint64_t word = 0;
  for (; bytes >= sizeof(word); at += sizeof(word), bytes -= sizeof(word)) {
    std::memcpy(&word, at, sizeof(word));
    digest = (digest ^ word) * 0x9E3779B97F4A7C15u;
    digest ^= digest >> 29;
  }
  word = 0;
  std::memcpy(&word, at, bytes);
  digest = (digest ^ word ^ (uint64_t{bytes} << 56)) * 0x9E3779B97F4A7C15u;
  return digest ^ (digest >> 32);
}

uint64_t DigestOf(const Aggregate& result) {
  const SparseTensor& tensor = result.tensor;
  HostVector<uint64_t> made;
  const std::span<const uint64_t> rows = tensor.indices.Array(made);
  const uint64_t of_rows = Mix(result.infinite_values, rows.data(), rows.size_bytes());
  return Mix(of_rows, tensor.values.data(), tensor.values.size());
}

ReduceSpec SpecOf(const CaseView& updates) {
  ReduceSpec spec;
  spec.name = "t";
  spec.layout = updates.layout;
  return spec;
}

// Stages the updates of a case one after the other.
class Stager {
 public:
  Stager(const CaseView& updates, bool packed, const Aggregator& aggregator)
      : updates_(updates),
        packed_(packed && updates.order == EntryOrder::kCanonical),
        spec_(SpecOf(updates)),
        aggregator_(aggregator) {}

  absl::StatusOr<StagedUpdate> Next() {
    const uint64_t begin = updates_.offsets[next_];
    const uint64_t nnz = updates_.offsets[next_ + 1] - begin;
    absl::StatusOr<StagedUpdate> staged =
        packed_ ? StagePacked({updates_.rows + begin, nnz}) : aggregator_.Stage(nnz);
    if (!staged.ok()) return staged;
    const uint64_t row_bytes = updates_.layout.row_bytes();
    const auto* values = reinterpret_cast<const std::byte*>(updates_.values) + begin * row_bytes;
    values_.Copy(staged->entries.values, values, nnz * row_bytes);
    if (staged->entries.rows.packed().empty()) {
      rows_.Copy(staged->entries.rows.wide(), updates_.rows + begin, nnz * sizeof(uint64_t));
      const auto order = ValidateUpdate(spec_, staged->entries.view(), updates_.weights[next_]);
      if (!order.ok()) return order.status();
      staged->order = *order;
    } else {
      staged->order = updates_.order;
    }
    ++next_;
    return staged;
  }

 private:
  // The rows are there, and the decoder would have found them good, where the back end wants them
  // as they come.
  absl::StatusOr<StagedUpdate> StagePacked(std::span<const uint64_t> rows) const {
    std::string packed;
    AppendPackedIndices(rows.data(), rows.size(), packed);
    absl::StatusOr<StagedUpdate> staged =
        aggregator_.StageIncremental(rows.size(), {.packed_bytes = packed.size()});
    if (staged.ok() && !staged->entries.rows.packed().empty()) {
      std::memcpy(staged->entries.rows.packed().data(), packed.data(), packed.size());
    }
    return staged;
  }

  const CaseView& updates_;
  const bool packed_;
  const ReduceSpec spec_;
  const Aggregator& aggregator_;
  ForwardReader rows_;
  ForwardReader values_;
  size_t next_ = 0;
};

absl::Status AccumulateBatch(const CaseView& updates, bool packed, Aggregator& aggregator,
                             Run& run) {
  Stager stager(updates, packed, aggregator);
  std::vector<StagedUpdate> staged;
  staged.reserve(updates.contributors());
  const Stopwatch staging;
  for (size_t k = 0; k < updates.contributors(); ++k) {
    absl::StatusOr<StagedUpdate> one = stager.Next();
    if (!one.ok()) return one.status();
    staged.push_back(*std::move(one));
  }
  run.stage_seconds = staging.Seconds();
  ResetPeak();
  const Stopwatch timed;
  for (size_t k = 0; k < staged.size(); ++k) {
    const absl::Status status = aggregator.Accumulate(std::move(staged[k]), updates.weights[k]);
    if (!status.ok()) return status;
  }
  run.seconds = timed.Seconds();
  return absl::OkStatus();
}

absl::Status AccumulateStream(const CaseView& updates, Aggregator& aggregator, Run& run) {
  Stager stager(updates, false, aggregator);
  ResetPeak();
  for (size_t k = 0; k < updates.contributors(); ++k) {
    const Stopwatch staging;
    absl::StatusOr<StagedUpdate> one = stager.Next();
    if (!one.ok()) return one.status();
    run.stage_seconds += staging.Seconds();
    const Stopwatch timed;
    const absl::Status status = aggregator.Accumulate(*std::move(one), updates.weights[k]);
    if (!status.ok()) return status;
    run.seconds += timed.Seconds();
  }
  return absl::OkStatus();
}

absl::StatusOr<Run> RunOnce(Backend& backend, const Plan& plan, bool packed,
                            const CaseView& updates) {
  auto aggregator = backend.NewAggregator(plan);
  if (!aggregator.ok()) return aggregator.status();
  Run run;
  const absl::Status accumulated = plan.workload.at_once
                                       ? AccumulateBatch(updates, packed, **aggregator, run)
                                       : AccumulateStream(updates, **aggregator, run);
  if (!accumulated.ok()) return accumulated;
  const Stopwatch timed;
  const absl::StatusOr<Aggregate> result = std::move(**aggregator).Report();
  run.seconds += timed.Seconds();
  if (!result.ok()) return result.status();
  run.report = (*aggregator)->plan_report();
  run.nnz = result->tensor.nnz();
  run.digest = DigestOf(*result);
  return run;
}

Row RowOf(const Run& run, uint64_t peak_bytes) {
  return {{"seconds", run.seconds},
          {"stage_seconds", run.stage_seconds},
          {"peak_bytes", peak_bytes},
          {"nnz", run.nnz},
          {"digest", run.digest},
          {"plan", run.report.plan},
          {"reason", run.report.reason},
          {"predicted_seconds", run.report.predicted_seconds},
          {"plan_seconds", run.report.seconds}};
}

Row Skipped(const absl::Status& status) { return {{"skipped", std::string(status.message())}}; }

}  // namespace

Row MeasureOwn(const OwnContender& contender, const CaseView& updates, int repetitions) {
  auto backend = contender.factory->make({.threads = contender.threads});
  if (!backend.ok()) return Skipped(backend.status());
  const Workload workload = {.contributors = updates.contributors(),
                             .nnz_per_update = updates.entries() / updates.contributors(),
                             .order = updates.order,
                             .at_once = contender.form != "stream"};
  const auto plan = MakePlan(SpecOf(updates), workload, (*backend)->info(), contender.plan);
  if (!plan.ok()) return Skipped(plan.status());

  const uint64_t before = ResidentBytes();
  auto [runs, peak] = RunsOf(
      repetitions, [&] { return RunOnce(**backend, *plan, contender.form == "packed", updates); });
  for (const absl::StatusOr<Run>& run : runs) {
    if (!run.ok()) return Skipped(run.status());
  }
  const auto median = runs.begin() + runs.size() / 2;
  std::nth_element(runs.begin(), median, runs.end(),
                   [](const auto& a, const auto& b) { return a->seconds < b->seconds; });
  return RowOf(**median, peak > before ? peak - before : 0);
}

std::vector<std::string> PlansOf(const BackendFactory& factory) {
  const auto backend = factory.make({.threads = 1});
  return backend.ok() ? (*backend)->info().plans : std::vector<std::string>{};
}

}  // namespace sparseagg::bench

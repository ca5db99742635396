// The metrics of a real engine over the reference back end.
#include "service/admin/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "service/admin/refusals.h"
#include "tests/service/engine/testing.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using testing::Sparse;
using testing::TestUpdate;

class MetricsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> Make(const std::shared_ptr<EngineObserver>& observer) {
    EngineOptions options;
    options.observer = observer;
    return MakeEngine(std::move(options), *backend_, *store_);
  }

  const TensorSpec spec_ = Sparse("t", 10);
  const std::unique_ptr<Backend> backend_ = testing::MakeBackend("reference");
  const std::unique_ptr<UpdateStore> store_ = MakeMemoryStore();
};

TEST_F(MetricsTest, CountsAcceptedRepeatedAndRefusedUpdates) {
  const auto metrics = std::make_shared<Metrics>();
  const auto engine = Make(metrics);
  ASSERT_TRUE(engine->CreateRound({.round_id = "r", .spec = {.tensors = {spec_}}}).ok());
  TestUpdate good("rounds/r", "a");
  good.Add(spec_, {1, 2}, std::vector<float>{1, 2});
  ASSERT_TRUE(engine->Submit(good.header, good.tensors()).ok());
  ASSERT_TRUE(engine->Submit(good.header, good.tensors()).ok());
  TestUpdate bad("rounds/r", "b");
  bad.Add(spec_, {10}, std::vector<float>{1});
  ASSERT_FALSE(engine->Submit(bad.header, bad.tensors()).ok());

  const Totals totals = metrics->totals();
  EXPECT_EQ(totals.accepted, 1);
  EXPECT_EQ(totals.duplicates, 1);
  EXPECT_EQ(totals.refused, 1);
  EXPECT_EQ(totals.nnz, 2);
  EXPECT_EQ(totals.payload_bytes, 2 * (8 + 4));
  EXPECT_THAT(metrics->refusals(), ElementsAre(Pair("INDEX_OUT_OF_RANGE", 1)));
}

TEST_F(MetricsTest, CountsReductionsByBackendAndPlan) {
  const auto metrics = std::make_shared<Metrics>();
  metrics->OnReduction({.backend = "cpu", .plan = "sweep", .seconds = 0.5, .predicted_seconds = 1});
  metrics->OnReduction({.backend = "cpu", .plan = "sweep", .seconds = 1, .predicted_seconds = 1});
  metrics->OnReduction({.backend = "cpu", .plan = "dense", .seconds = 2});
  const auto plans = metrics->plans();
  ASSERT_EQ(plans.size(), 2);
  EXPECT_EQ(plans[0].plan, "dense");
  EXPECT_EQ(plans[1].plan, "sweep");
  EXPECT_EQ(plans[1].seconds, 1.5);
  EXPECT_EQ(plans[1].predicted_seconds, 2);
}

// The value in a scrape of a metric with at most one label, which has this value.
std::vector<double> Scraped(const Metrics& metrics, const std::string& name,
                            const std::string& label_value = "") {
  std::vector<double> values;
  for (const prometheus::MetricFamily& family : metrics.registry().Collect()) {
    if (family.name != name) continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      if (!metric.label.empty() && metric.label[0].value != label_value) continue;
      values.push_back(metric.counter.value + metric.gauge.value);
    }
  }
  return values;
}

TEST_F(MetricsTest, ChangesOfRoundsAreCountedFromZero) {
  const auto metrics = std::make_shared<Metrics>();
  for (const std::string state : {"OPEN", "SEALED", "PUBLISHED", "RETIRED", "ABORTED"}) {
    EXPECT_THAT(Scraped(*metrics, "sparseagg_round_changes_total", state), ElementsAre(0));
  }
  const auto engine = Make(metrics);
  ASSERT_TRUE(engine->CreateRound({.round_id = "r", .spec = {.tensors = {spec_}}}).ok());
  ASSERT_TRUE(engine->AbortRound("rounds/r").ok());
  EXPECT_THAT(Scraped(*metrics, "sparseagg_round_changes_total", "ABORTED"), ElementsAre(1));
}

// The values of all series of a family that have this label.
std::vector<double> ScrapedWith(const Metrics& metrics, const std::string& name,
                                const prometheus::ClientMetric::Label& label) {
  std::vector<double> values;
  for (const prometheus::MetricFamily& family : metrics.registry().Collect()) {
    if (family.name != name) continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      if (std::find(metric.label.begin(), metric.label.end(), label) == metric.label.end())
        continue;
      values.push_back(metric.counter.value);
    }
  }
  return values;
}

TEST_F(MetricsTest, RefusalsThatAlertsAskForAreCountedFromZero) {
  Metrics metrics;
  const std::string family = "sparseagg_refusals_total";
  for (const std::string reason : {"STORE_CORRUPT", "STORE_ERROR", "STAGING_FULL"}) {
    EXPECT_THAT(ScrapedWith(metrics, family, {"reason", reason}), ElementsAre(0)) << reason;
  }
  EXPECT_THAT(metrics.refusals(), ::testing::IsEmpty());
  metrics.OnSubmission(
      {.header = {}, .status = MakeError(absl::StatusCode::kDataLoss, "STORE_CORRUPT", "m")});
  EXPECT_THAT(ScrapedWith(metrics, family, {"reason", "STORE_CORRUPT"}), ElementsAre(1));
}

TEST_F(MetricsTest, CallsOfAMethodAreCountedFromZeroWithEveryCode) {
  Metrics metrics;
  const CallMethod method{.path = "/s/M", .service = "s", .method = "M"};
  metrics.OnMethod(method);
  const std::string family = "grpc_server_handled_total";
  EXPECT_THAT(ScrapedWith(metrics, family, {"grpc_method", "M"}),
              ::testing::AllOf(::testing::SizeIs(17), ::testing::Each(0)));
  metrics.OnCallEnded(method, {.code = absl::StatusCode::kInternal});
  EXPECT_THAT(ScrapedWith(metrics, family, {"grpc_code", "INTERNAL"}), ElementsAre(1));
  EXPECT_THAT(ScrapedWith(metrics, family, {"grpc_method", "M"}), ::testing::SizeIs(17));
}

TEST_F(MetricsTest, ALostGpuIsSeen) {
  Metrics metrics;
  EXPECT_THAT(Scraped(metrics, "sparseagg_backend_lost"), ElementsAre(0));
  metrics.OnBackendLost();
  EXPECT_THAT(Scraped(metrics, "sparseagg_backend_lost"), ElementsAre(1));
}

TEST_F(MetricsTest, HasTheNumberOfConnectionsOverHttp) {
  Metrics metrics;
  EXPECT_THAT(Scraped(metrics, "sparseagg_http_connections"), ElementsAre(0));
  metrics.OnHttpConnections(3);
  EXPECT_THAT(Scraped(metrics, "sparseagg_http_connections"), ElementsAre(3));
}

// Every state of a round counts once, however often it is requested.
TEST_F(MetricsTest, AnObserverHearsOfEachChangeOfARound) {
  class States : public EngineObserver {
   public:
    void OnRoundState(const RoundSnapshot& round) override {
      const std::lock_guard lock(mutex_);
      states_.push_back(round.state);
      changed_.notify_all();
    }
    std::vector<RoundState> WaitFor(size_t count) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return states_.size() >= count; });
      return states_;
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<RoundState> states_;
  };
  const auto states = std::make_shared<States>();
  const auto engine = Make(states);
  const CreateRoundArgs args{.round_id = "r", .request_id = "q", .spec = {.tensors = {spec_}}};
  ASSERT_TRUE(engine->CreateRound(args).ok());
  ASSERT_TRUE(engine->CreateRound(args).ok());  // a retry
  ASSERT_TRUE(engine->SealRound("rounds/r").ok());
  states->WaitFor(3);
  ASSERT_TRUE(engine->SealRound("rounds/r").ok());  // a retry
  ASSERT_TRUE(engine->DeleteRound("rounds/r").ok());
  ASSERT_TRUE(engine->CreateRound({.round_id = "r2", .spec = {.tensors = {spec_}}}).ok());
  ASSERT_TRUE(engine->AbortRound("rounds/r2").ok());
  ASSERT_TRUE(engine->AbortRound("rounds/r2").ok());
  using enum RoundState;
  // Different threads report sealing and publishing.
  EXPECT_THAT(states->WaitFor(6), ::testing::UnorderedElementsAre(kOpen, kSealed, kPublished,
                                                                  kRetired, kOpen, kAborted));
}

TEST_F(MetricsTest, TheEngineTellsHowFullItIs) {
  const auto engine = Make(std::make_shared<EngineObserver>());
  ASSERT_TRUE(engine->CreateRound({.round_id = "r", .spec = {.tensors = {spec_}}}).ok());
  ASSERT_TRUE(engine->CreateRound({.round_id = "s", .spec = {.tensors = {spec_}}}).ok());
  ASSERT_TRUE(engine->AbortRound("rounds/s").ok());
  TestUpdate update("rounds/r", "a");
  update.Add(spec_, {1, 2}, std::vector<float>{1, 2});
  const auto upload = engine->BeginUpload(update.header, update.headers());
  ASSERT_TRUE(upload.ok()) << upload.status();
  ASSERT_TRUE((*upload)->Append(0, update.byte_string().substr(0, 4), {}).ok());
  const EngineStats stats = engine->Stats();
  EXPECT_EQ(stats.rounds.at(RoundState::kOpen), 1);
  EXPECT_EQ(stats.rounds.at(RoundState::kAborted), 1);
  EXPECT_EQ(stats.open_uploads, 1);
  EXPECT_GT(stats.staged_bytes, 0);
  EXPECT_EQ(stats.aggregation_bytes_max, backend_->info().memory_bytes);
}

TEST_F(MetricsTest, KeepsTheLastRefusalsWithoutTheirMessages) {
  const auto now = std::chrono::system_clock::time_point(std::chrono::seconds(1000));
  Refusals refusals([&] { return now; });
  const UpdateHeader header{.round = "rounds/r", .contributor = std::string(500, 'x')};
  const absl::Status bad = MakeError(absl::StatusCode::kInvalidArgument, "FIRST", "index 812");
  const absl::Status full =
      WithRetryAfter(MakeError(absl::StatusCode::kResourceExhausted, "LAST", "full"), 10);
  refusals.OnSubmission({.header = header, .status = bad});
  for (size_t i = 0; i < Refusals::kKept; ++i) {
    refusals.OnSubmission({.header = header, .status = full});
  }
  refusals.OnSubmission({.header = header, .status = absl::OkStatus()});
  const std::vector<Refusal> recent = refusals.Recent();
  ASSERT_EQ(recent.size(), Refusals::kKept);
  EXPECT_EQ(recent.front().reason, "LAST");
  EXPECT_EQ(recent.back().reason, "LAST");
  EXPECT_TRUE(recent.front().retry);
  EXPECT_EQ(recent.front().time, now);
  EXPECT_LT(recent.front().contributor.size(), 100);
}

TEST_F(MetricsTest, CutsLongNamesOfRefusalsBetweenCharacters) {
  Refusals refusals([] { return std::chrono::system_clock::time_point(); });
  const absl::Status bad = MakeError(absl::StatusCode::kInvalidArgument, "R", "m");
  const UpdateHeader header{.round = std::string(78, 'r') + "\u00e9",
                            .contributor = std::string(79, 'c') + "\u00e9"};
  refusals.OnSubmission({.header = header, .status = bad});
  EXPECT_EQ(refusals.Recent().front().round, header.round);
  EXPECT_EQ(refusals.Recent().front().contributor, std::string(79, 'c'));
}

}  // namespace
}  // namespace sparseagg

#include "client/cli/load/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <mutex>

#include "client/cli/load/synthetic_updates.h"
#include "sparse/validate.h"
#include "tests/client/support.h"
#include "tests/service/rpc/test_server.h"

namespace sparseagg::cli {
namespace {

using sparseagg::testing::HasError;
using sparseagg::testing::TestServer;
using sparseagg::testing::ValuesOf;

SyntheticShape Small(const std::string& indices) {
  return {.num_rows = 5000, .row_width = 3, .nnz_min = 1, .nnz_max = 40, .indices = indices};
}

TEST(SyntheticUpdatesTest, HaveDistinctAscendingRowsAndSmallWholeValues) {
  for (const char* indices : kIndexDistributions) {
    const SyntheticUpdates updates = SyntheticUpdates::Make(Small(indices), 8).value();
    for (uint64_t i = 0; i < 8; ++i) {
      const client::Tensor& tensor = updates.tensor(i);
      EXPECT_GE(tensor.nnz(), 1u);
      EXPECT_LE(tensor.nnz(), 40u);
      EXPECT_EQ(OrderOf(tensor.indices.data(), tensor.nnz()), EntryOrder::kCanonical);
      EXPECT_LT(tensor.indices.back(), 5000u);
      for (const float value : ValuesOf<float>(tensor)) {
        EXPECT_EQ(value, std::trunc(value));
        EXPECT_LE(std::abs(value), 8);
      }
    }
    EXPECT_EQ(&updates.tensor(3), &updates.tensor(11)) << "the pool is used again and again";
  }
}

TEST(SyntheticUpdatesTest, TheSameSeedGivesTheSameUpdates) {
  SyntheticShape shape = Small("zipf");
  const auto values = [&] { return SyntheticUpdates::Make(shape, 1)->tensor(0).values; };
  const auto first = values();
  EXPECT_EQ(values(), first);
  shape.seed = 2;
  EXPECT_NE(values(), first);
}

TEST(SyntheticUpdatesTest, ZipfPrefersTheFirstRowsAndTopkASharedSet) {
  SyntheticShape shape{.num_rows = 100'000, .nnz_min = 500, .nnz_max = 500, .indices = "zipf"};
  const SyntheticUpdates zipf = SyntheticUpdates::Make(shape, 1).value();
  EXPECT_LT(zipf.tensor(0).indices[200], 2000u);
  shape.indices = "topk";
  const SyntheticUpdates topk = SyntheticUpdates::Make(shape, 2).value();
  std::vector<uint64_t> common;
  std::set_intersection(topk.tensor(0).indices.begin(), topk.tensor(0).indices.end(),
                        topk.tensor(1).indices.begin(), topk.tensor(1).indices.end(),
                        std::back_inserter(common));
  EXPECT_GT(common.size(), 100u);
}

TEST(SyntheticUpdatesTest, SumsWhatTheFirstContributorsSend) {
  const SyntheticUpdates updates = SyntheticUpdates::Make(Small("uniform"), 2).value();
  const client::Tensor sum = updates.SumOf(3);  // with update 0 twice
  double expected = 0;
  for (const uint64_t i : {0, 1, 2}) {
    for (const float value : ValuesOf<float>(updates.tensor(i))) expected += value;
  }
  double got = 0;
  for (const float value : ValuesOf<float>(sum)) got += value;
  EXPECT_EQ(got, expected);
  EXPECT_EQ(updates.SumOf(0).nnz(), 0u);
}

TEST(SyntheticUpdatesTest, DrawsNearlyAllRowsInNoTime) {
  constexpr uint64_t kRows = 100'000;  // drawing the last of them one by one would take hours
  SyntheticShape shape{.num_rows = kRows};
  for (const uint64_t left_out : {0, 1, 100, 49'999}) {
    shape.nnz_min = shape.nnz_max = kRows - left_out;
    const SyntheticUpdates updates = SyntheticUpdates::Make(shape, 2).value();
    for (uint64_t i = 0; i < 2; ++i) {
      const std::vector<uint64_t>& rows = updates.tensor(i).indices;
      ASSERT_EQ(rows.size(), kRows - left_out);
      EXPECT_EQ(OrderOf(rows.data(), rows.size()), EntryOrder::kCanonical) << "distinct";
      EXPECT_LT(rows.back(), kRows);
    }
    EXPECT_EQ(updates.tensor(0).indices == updates.tensor(1).indices, left_out == 0);
    EXPECT_EQ(SyntheticUpdates::Make(shape, 1)->tensor(0).indices, updates.tensor(0).indices)
        << "the same seed";
  }
}

TEST(SyntheticUpdatesTest, WhatIsLeftOutIsUniformToo) {
  const SyntheticShape shape{.num_rows = 1000, .nnz_min = 900, .nnz_max = 900};
  const SyntheticUpdates updates = SyntheticUpdates::Make(shape, 200).value();
  std::vector<int> drawn(1000);
  for (uint64_t i = 0; i < 200; ++i) {
    for (const uint64_t row : updates.tensor(i).indices) ++drawn[row];
  }
  // 180 each are expected, with a deviation of 4.2.
  EXPECT_GT(*std::min_element(drawn.begin(), drawn.end()), 150);
  EXPECT_LT(*std::min_element(drawn.begin(), drawn.end()), 180);
}

TEST(SyntheticUpdatesTest, EveryRowOfTheSmallestTensors) {
  for (const uint64_t rows : {1, 2, 3}) {
    const SyntheticShape shape{
        .num_rows = static_cast<int64_t>(rows), .nnz_min = rows, .nnz_max = rows};
    const SyntheticUpdates updates = SyntheticUpdates::Make(shape, 1).value();
    EXPECT_EQ(updates.tensor(0).nnz(), rows);
    EXPECT_EQ(updates.tensor(0).indices.back(), rows - 1);
  }
}

TEST(SyntheticUpdatesTest, DrawsAsManyEntriesAsEveryDistributionAllows) {
  for (const std::string indices : {"zipf", "topk"}) {
    SyntheticShape shape{
        .num_rows = 200'000, .nnz_min = 20'000, .nnz_max = 20'000, .indices = indices};
    EXPECT_EQ(SyntheticUpdates::Make(shape, 1)->tensor(0).nnz(), 20'000u) << indices;
    ++shape.nnz_max;
    EXPECT_TRUE(HasError(SyntheticUpdates::Make(shape, 1).status(), "BAD_ARGUMENT", "ten times"));
  }
}

TEST(SyntheticUpdatesTest, RefusesMoreEntriesThanItCanDraw) {
  SyntheticShape shape = Small("zipf");
  shape.nnz_max = 501;
  EXPECT_TRUE(HasError(SyntheticUpdates::Make(shape, 1).status(), "BAD_ARGUMENT", "--rows"));
  shape.row_width = 0;
  EXPECT_TRUE(HasError(SyntheticUpdates::Make(shape, 1).status(), "BAD_ARGUMENT", "--width"));
}

TEST(SyntheticUpdatesTest, NeitherAnUpdateNorThePoolOutgrowsItsMemory) {
  SyntheticShape shape{.num_rows = int64_t{1} << 40, .row_width = 1 << 20};
  shape.nnz_min = shape.nnz_max = 1 << 20;
  EXPECT_TRUE(HasError(SyntheticUpdates::Make(shape, 1).status(), "BAD_ARGUMENT", "4294967296"));
  shape.row_width = int64_t{1} << 40;
  EXPECT_EQ(SyntheticUpdates::Make(shape, 1).status().code(), absl::StatusCode::kInvalidArgument);
  shape.row_width = 1;
  shape.nnz_min = shape.nnz_max = 100;  // 1200 bytes
  const SyntheticUpdates updates = SyntheticUpdates::Make(shape, 64, 3000).value();
  EXPECT_EQ(&updates.tensor(0), &updates.tensor(2)) << "a pool of two";
  EXPECT_NE(&updates.tensor(0), &updates.tensor(1));
}

LoadOptions OptionsFor(const TestServer& server) {
  LoadOptions options;
  options.updates = 60;
  options.warm_up = 7;
  options.connect = [&server](auto on_retry) {
    client::ClientOptions client;
    client.on_retry = std::move(on_retry);
    return client::Client::Connect(server.address(), std::move(client));
  };
  options.round = std::make_shared<TemporaryRound>(
      [&server] { return client::Client::Connect(server.address()); });
  return options;
}

TEST(LoadTest, FindsTheExactSumAtEveryConcurrencyAndRate) {
  TestServer server;
  const SyntheticUpdates updates = SyntheticUpdates::Make(Small("topk"), 5).value();
  LoadOptions options = OptionsFor(server);
  for (const uint32_t concurrency : {1, 4}) {
    for (const double rate : {0.0, 3000.0}) {
      options.concurrency = concurrency;
      options.updates_per_s = rate;
      const auto result = RunLoad(updates, options);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_TRUE(result->is_exact);
      EXPECT_EQ(result->updates, 60u);
      EXPECT_TRUE(result->retries.empty());
      EXPECT_EQ(result->latencies_ms.size(), 60u);
      EXPECT_GT(result->payload_bytes, 0u);
      EXPECT_GT(result->seconds, rate == 0 ? 0 : 59 / rate);
    }
  }
  EXPECT_TRUE(server.engine().ListRounds("", 10).empty()) << "its rounds are deleted";
}

// The methods that were called, in order.
class MethodLog : public CallObserver {
 public:
  void OnCallStarted(const CallMethod& method) override {
    const std::lock_guard lock(mutex_);
    methods_.emplace_back(method.method);
  }
  std::vector<std::string> Take() {
    const std::lock_guard lock(mutex_);
    return std::move(methods_);
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> methods_;
};

TEST(LoadTest, ConnectsEveryThreadBeforeTheFirstUpdate) {
  const auto log = std::make_shared<MethodLog>();
  TestServer server({}, "127.0.0.1:0", {}, log);
  const SyntheticUpdates updates = SyntheticUpdates::Make(Small("uniform"), 5).value();
  LoadOptions options = OptionsFor(server);
  options.concurrency = 6;
  options.updates = 3;  // some threads have nothing to send
  options.warm_up = 0;
  ASSERT_TRUE(RunLoad(updates, options).ok());
  const std::vector<std::string> methods = log->Take();
  const auto first = std::find(methods.begin(), methods.end(), "SubmitUpdate");
  EXPECT_EQ(std::count(methods.begin(), first, "GetServerInfo"), 6);
  EXPECT_EQ(std::count(first, methods.end(), "GetServerInfo"), 0);
}

// Updates whose expected sum is wrong.
class MiscountedUpdates : public LoadUpdates {
 public:
  explicit MiscountedUpdates(const LoadUpdates& updates) : updates_(updates) {}
  std::vector<TensorSpec> specs() const override { return updates_.specs(); }
  std::vector<client::TensorView> update(uint64_t i) const override { return updates_.update(i); }
  std::string file(uint64_t i) const override { return updates_.file(i); }
  absl::StatusOr<std::vector<client::Tensor>> SumsOf(uint64_t count) const override {
    return updates_.SumsOf(count - 1);
  }

 private:
  const LoadUpdates& updates_;
};

TEST(LoadTest, SeesASumThatIsNotExact) {
  TestServer server;
  const SyntheticUpdates updates = SyntheticUpdates::Make(Small("uniform"), 5).value();
  const auto result = RunLoad(MiscountedUpdates(updates), OptionsFor(server));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->is_exact);
}

TEST(LoadTest, EndsWithTheFirstRefusalAndLeavesNoRound) {
  TestServer server(Limits{.update_nnz_max = 20});
  const SyntheticUpdates updates = SyntheticUpdates::Make(Small("uniform"), 16).value();
  LoadOptions options = OptionsFor(server);
  options.concurrency = 3;
  EXPECT_TRUE(HasError(RunLoad(updates, options).status(), "UPDATE_TOO_LARGE", "bench"));
  EXPECT_TRUE(server.engine().ListRounds("", 10).empty());
}

TEST(LoadTest, SaysWhichRoundItCouldNotErase) {
  TestServer server(Limits{.update_nnz_max = 20});
  const SyntheticUpdates updates = SyntheticUpdates::Make(Small("uniform"), 16).value();
  LoadOptions options = OptionsFor(server);
  options.round = std::make_shared<TemporaryRound>([] {
    return absl::StatusOr<std::unique_ptr<client::Client>>(absl::UnavailableError("it is gone"));
  });
  const absl::Status refused = RunLoad(updates, options).status();
  const std::string round = server.engine().ListRounds("", 10).at(0).name;
  EXPECT_TRUE(HasError(refused, "UPDATE_TOO_LARGE", round + " remains on the server: it is gone"));

  TestServer other;
  options.connect = OptionsFor(other).connect;
  const auto result = RunLoad(updates, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->is_exact) << "the measurement is none the worse for it";
  EXPECT_EQ(result->left,
            other.engine().ListRounds("", 10).at(0).name + " remains on the server: it is gone");
}

TEST(LoadResultTest, PercentilesAreLatenciesThatWereSeen) {
  LoadResult result;
  EXPECT_EQ(result.Percentile(0.5), 0);
  for (int i = 1; i <= 100; ++i) result.latencies_ms.push_back(i);
  EXPECT_EQ(result.Percentile(0.5), 50);
  EXPECT_EQ(result.Percentile(0.99), 99);
  EXPECT_EQ(result.Percentile(1), 100);
  EXPECT_EQ(result.Percentile(0.001), 1);
}

}  // namespace
}  // namespace sparseagg::cli

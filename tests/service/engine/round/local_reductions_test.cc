// A reduction without an engine gives the results and the errors of one with it.
#include "service/engine/round/local_reductions.h"

#include <algorithm>
#include <thread>

#include "tests/service/engine/testing.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::Sparse;
using testing::TestUpdate;
using testing::Values;
using Folding = TensorReducers::Folding;

class LocalReductionsTest : public ::testing::TestWithParam<Folding> {
 protected:
  const TensorSpec spec_ = Sparse("emb", 10, "weighted_mean");
  const std::unique_ptr<Backend> backend_ = testing::MakeBackend("cpu");
  LocalReductions reductions_{*backend_};

  std::unique_ptr<StatelessReduction> New() { return *reductions_.New({spec_}, GetParam()); }
  TestUpdate Update(const std::vector<int64_t>& rows, const std::vector<float>& values,
                    float weight) {
    return TestUpdate("", "", weight, "").Add<float>(spec_, rows, values);
  }
};

TEST_P(LocalReductionsTest, ReducesWithoutDigests) {
  auto reduction = New();
  for (const float weight : {1.0f, 3.0f}) {
    TestUpdate update = Update({2, 5}, {4, weight}, weight);
    ASSERT_TRUE(reduction->Add(update.header, update.tensors()).ok());
  }
  const auto result = reduction->Report();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT((*result)->tensors[0].indices, ElementsAre(2, 5));
  EXPECT_THAT(Values<float>((*result)->tensors[0]), ElementsAre(4, 2.5f));
  EXPECT_EQ((*result)->manifest.contributors, 2u);
  EXPECT_EQ((*result)->manifest.total_weight, 4.0);
  EXPECT_EQ((*result)->manifest.updates_digest, "");
  EXPECT_EQ((*result)->manifest.result_digest, "");
}

TEST_P(LocalReductionsTest, AddsFromManyThreads) {
  constexpr int kThreads = 8;
  constexpr int kUpdates = 50;
  auto reduction = New();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kUpdates; ++i) {
        TestUpdate update = Update({t}, {1}, 1);
        EXPECT_TRUE(reduction->Add(update.header, update.tensors()).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto result = reduction->Report();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT((*result)->manifest.contributors, kThreads * kUpdates);
  EXPECT_THAT(Values<float>((*result)->tensors[0]), ::testing::Each(1.0f / kThreads));
}

TEST_P(LocalReductionsTest, RefusesWhatAnEngineRefuses) {
  EXPECT_THAT(reductions_.New({}, GetParam()).status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_SPEC"));
  EXPECT_THAT(reductions_.New({spec_, spec_}, GetParam()).status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "DUPLICATE_TENSOR"));
  auto reduction = New();
  TestUpdate update = Update({10}, {1}, 1);
  EXPECT_THAT(reduction->Add(update.header, update.tensors()),
              FailsWith(absl::StatusCode::kInvalidArgument, "INDEX_OUT_OF_RANGE"));
}

// Memory is the back end's, and a result may outlive everything that it was made with.
TEST(LocalReductionsLifeTest, AResultOutlivesItsReductions) {
  const TensorSpec spec = Sparse("emb", 10);
  std::shared_ptr<const PublishedResult> result;
  {
    const auto backend = testing::MakeBackend("cpu");
    LocalReductions reductions(*backend);
    auto reduction = *reductions.New({spec}, Folding::kAtOnce);
    TestUpdate update("", "", 1, "");
    update.Add<float>(spec, {3}, {7});
    ASSERT_TRUE(reduction->Add(update.header, update.tensors()).ok());
    result = *reduction->Report();
  }
  EXPECT_THAT(Values<float>(result->tensors[0]), ElementsAre(7));
}

TEST(LocalReductionsLifeTest, RefusesMoreMemoryThanTheBackEndHas) {
  const auto is_cpu = [](const BackendFactory& factory) { return factory.name == "cpu"; };
  const auto backend =
      *std::ranges::find_if(AllBackends(), is_cpu)->make({.memory_bytes = 100'000});
  LocalReductions reductions(*backend);
  const TensorSpec spec = Sparse("emb", 1'000'000);
  auto reduction = *reductions.New({spec}, Folding::kInBatches);
  TestUpdate update("", "", 1, "");
  std::vector<int64_t> rows(20'000);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
  update.Add<float>(spec, rows, std::vector<float>(rows.size(), 1.0f));
  EXPECT_EQ(reduction->Add(update.header, update.tensors()).code(),
            absl::StatusCode::kResourceExhausted);
}

INSTANTIATE_TEST_SUITE_P(Folding, LocalReductionsTest,
                         ::testing::Values(Folding::kInBatches, Folding::kAtOnce),
                         [](const auto& info) {
                           return info.param == Folding::kAtOnce ? "AtOnce" : "InBatches";
                         });

}  // namespace
}  // namespace sparseagg

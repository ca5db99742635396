#include "client/cli/local_reduce.h"

#include "sparse/reference_backend.h"
#include "tests/client/support.h"

namespace sparseagg::cli {
namespace {

using client::Tensor;
using sparseagg::testing::MakeTensor;
using ::testing::ElementsAre;

const TensorSpec kEmb{"emb", ValueType::kF32, {10, 2}, 1};
const TensorSpec kBias{"bias", ValueType::kF32, {3}, 0};

// The reference back end, which records the requested plans.
class RecordingBackend : public Backend {
 public:
  RecordingBackend() : inner_(MakeReferenceBackend({}).value()), info_(inner_->info()) {
    info_.memory_bytes = 1000;
  }
  const BackendInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<Aggregator>> NewAggregator(const Plan& plan) override {
    workloads.push_back(plan.workload);
    return inner_->NewAggregator(plan);
  }

  std::vector<Workload> workloads;

 private:
  std::unique_ptr<Backend> inner_;
  BackendInfo info_;
};

class LocalReduceTest : public ::testing::Test {
 protected:
  absl::StatusOr<LocalReduction> Reduce(uint64_t bytes_max) {
    client::ReduceRequest request;
    request.tensors = {kEmb, kBias};
    request.num_updates = updates_.size();
    request.update = [this](uint64_t i) -> absl::StatusOr<client::Update> {
      client::Update update;
      update.weight = static_cast<float>(i + 1);
      update.tensors = client::ViewsOf(updates_[i]);
      return update;
    };
    return ReduceLocally(request, bytes_max, backend_);
  }

  std::vector<std::vector<Tensor>> updates_ = {
      {MakeTensor<float>(kEmb, {7, 2}, {1, 2, 3, 4}), MakeTensor<float>(kBias, {0}, {1, 2, 3})},
      {MakeTensor<float>(kEmb, {7}, {10, 20}), MakeTensor<float>(kBias, {}, {})}};
  RecordingBackend backend_;
};

TEST_F(LocalReduceTest, GivesTheTensorsAndHowTheyWereReduced) {
  const LocalReduction local = Reduce(100).value();
  ASSERT_EQ(local.tensors.size(), 2u);
  const client::TensorView& emb = local.tensors[0];
  EXPECT_EQ(emb.name, "emb");
  EXPECT_THAT(std::span(emb.entries.rows.wide(), emb.entries.nnz), ElementsAre(2, 7));
  EXPECT_THAT(std::span(static_cast<const float*>(emb.entries.values), 4),
              ElementsAre(3, 4, 21, 42));
  const client::TensorStatus& status = local.status.at(0);
  EXPECT_EQ(status.name, "emb");
  EXPECT_EQ(status.backend, "reference");
  EXPECT_EQ(status.plan, "wide");
  EXPECT_FALSE(status.plan_reason.empty());
  EXPECT_EQ(status.nnz_received, 3u);
  EXPECT_EQ(status.nnz_result, 2u);
  EXPECT_EQ(local.status.at(1).name, "bias");
  EXPECT_EQ(local.status.at(1).nnz_received, 1u);
}

TEST_F(LocalReduceTest, TellsThePlannerOfTheUpdatesByTheFirst) {
  ASSERT_TRUE(Reduce(100).ok());
  ASSERT_EQ(backend_.workloads.size(), 2u);
  for (const Workload& workload : backend_.workloads) EXPECT_EQ(workload.contributors, 2u);
  EXPECT_EQ(backend_.workloads[0].nnz_per_update, 2u);
  EXPECT_EQ(backend_.workloads[1].nnz_per_update, 1u);
}

TEST_F(LocalReduceTest, TellsThePlannerOfTheOrderOfTheFirstUpdate) {
  ASSERT_TRUE(Reduce(100).ok());
  EXPECT_EQ(backend_.workloads.at(0).order, EntryOrder::kUnsorted);   // the rows 7 and 2
  EXPECT_EQ(backend_.workloads.at(1).order, EntryOrder::kCanonical);  // one row
}

TEST_F(LocalReduceTest, ReducesAtOnceWhatFitsInHalfOfTheMemory) {
  ASSERT_TRUE(Reduce(500).ok());
  EXPECT_TRUE(backend_.workloads.at(0).at_once);
  ASSERT_TRUE(Reduce(501).ok());
  EXPECT_FALSE(backend_.workloads.at(2).at_once);
}

}  // namespace
}  // namespace sparseagg::cli

// A stateless reduction has the same result as a round.
#include "tests/service/engine/testing.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;
using testing::Values;

class ReductionTest : public ::testing::Test {
 protected:
  const TensorSpec spec_ = Sparse("emb", 10);
  TestEngine engine_;
  std::unique_ptr<StatelessReduction> reduction_ = *engine_->NewReduction({.tensors = {spec_}});

  TestUpdate Update(const std::vector<int64_t>& rows, const std::vector<float>& values,
                    float weight = 1.0f, const std::string& contributor = "",
                    const std::string& round = "") {
    return TestUpdate(round, contributor, weight, contributor.empty() ? "" : "u")
        .Add<float>(spec_, rows, values);
  }
  absl::Status Add(TestUpdate update) { return reduction_->Add(update.header, update.tensors()); }
};

TEST_F(ReductionTest, SumsAnonymousUpdates) {
  ASSERT_TRUE(Add(Update({0, 5}, {1, 1})).ok());
  ASSERT_TRUE(Add(Update({5, 9}, {1, 1})).ok());
  const auto result = reduction_->Report();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT((*result)->tensors[0].indices, ElementsAre(0, 5, 9));
  EXPECT_THAT(Values<float>((*result)->tensors[0]), ElementsAre(1, 2, 1));
  EXPECT_EQ((*result)->manifest.contributors, 2u);
  EXPECT_TRUE(engine_->ListRounds("", 1).empty()) << "nothing is stored";
}

TEST_F(ReductionTest, GivesTheDigestsOfARound) {
  const std::string round = engine_.Create({spec_}).name;
  for (const char* contributor : {"b", "a"}) {
    ASSERT_TRUE(engine_.Submit(Update({1}, {3}, 0.5f, contributor, round)).ok());
  }
  for (const char* contributor : {"a", "b"}) {
    ASSERT_TRUE(Add(Update({1}, {3}, 0.5f, contributor)).ok());
  }
  const Manifest of_round = engine_.SealAndWait(round)->manifest;
  const Manifest of_reduction = reduction_->Report().value()->manifest;
  EXPECT_EQ(of_reduction.updates_digest, of_round.updates_digest);
  EXPECT_EQ(of_reduction.result_digest, of_round.result_digest);
  EXPECT_EQ(of_reduction.total_weight, of_round.total_weight);
}

TEST_F(ReductionTest, LeavesABadUpdateOut) {
  ASSERT_TRUE(Add(Update({1}, {1})).ok());
  EXPECT_THAT(Add(Update({1, 10}, {1, 1})),
              FailsWith(absl::StatusCode::kInvalidArgument, "INDEX_OUT_OF_RANGE"));
  EXPECT_THAT(Add(Update({1}, {1}, -1.0f)),
              FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_WEIGHT"));
  EXPECT_THAT(Add(Update({1}, {1}, 1.0f, "no spaces")),
              FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_CONTRIBUTOR"));
  EXPECT_THAT(Add(TestUpdate("", "", 1.0f, "")),
              FailsWith(absl::StatusCode::kInvalidArgument, "MISSING_TENSOR"));
  EXPECT_THAT(Values<float>(reduction_->Report().value()->tensors[0]), ElementsAre(1));
}

TEST_F(ReductionTest, TakesUpdatesInChunks) {
  TestUpdate update = Update({2, 7}, {1, 2}, 2.0f);
  auto upload = *reduction_->BeginUpload(update.header, update.headers());
  EXPECT_GE(engine_->Stats().staged_bytes, sizeof(EncodedHeader)) << "of the header";
  const std::string bytes = update.byte_string();
  ASSERT_TRUE(upload->Append(0, bytes.substr(0, 3), std::nullopt).ok());
  EXPECT_FALSE(upload->Finish().ok());
  ASSERT_TRUE(upload->Append(3, bytes.substr(3), std::nullopt).ok());
  const auto receipt = upload->Finish();
  ASSERT_TRUE(receipt.ok()) << receipt.status();
  EXPECT_EQ(receipt->sequence, 1u);
  EXPECT_THAT(Values<float>(reduction_->Report().value()->tensors[0]), ElementsAre(2, 4));
}

TEST_F(ReductionTest, ReportsOnce) {
  ASSERT_TRUE(reduction_->Report().ok());
  const auto ended = FailsWith(absl::StatusCode::kFailedPrecondition, "REDUCTION_ENDED");
  EXPECT_THAT(reduction_->Report().status(), ended);
  EXPECT_THAT(Add(Update({1}, {1})), ended);
}

TEST_F(ReductionTest, ItsResultHoldsItsMemoryUntilNobodyReadsIt) {
  ASSERT_TRUE(Add(Update({1}, {1})).ok());
  std::shared_ptr<const PublishedResult> result = *reduction_->Report();
  reduction_.reset();
  EXPECT_GE(engine_->Stats().aggregation_bytes, sizeof(uint64_t) + sizeof(float));
  result.reset();
  EXPECT_EQ(engine_->Stats().aggregation_bytes, 0u);
}

// The bits of both results are those of one reduction of all updates.
TEST_F(ReductionTest, MergesWhatAnotherHadWhenItsSnapshotWasTaken) {
  auto other = *engine_->NewReduction({.tensors = {spec_}});
  TestUpdate first = Update({0, 5}, {1e30f, 1}, 2.0f);
  TestUpdate second = Update({5, 9}, {-1e-30f, 1});
  ASSERT_TRUE(other->Add(first.header, first.tensors()).ok());
  const auto partials = other->Snapshot();
  ASSERT_TRUE(partials.ok()) << partials.status();
  ASSERT_TRUE(other->Add(second.header, second.tensors()).ok()) << "the reduction goes on";
  ASSERT_TRUE(Add(Update({0, 7}, {-1e30f, 3}, 0.5f)).ok());
  ASSERT_TRUE(reduction_->Merge(*partials).ok());
  ASSERT_TRUE(Add(Update({7}, {4})).ok());

  const auto merged = reduction_->Report();
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_THAT((*merged)->tensors[0].indices, ElementsAre(0, 5, 7));
  EXPECT_THAT(Values<float>((*merged)->tensors[0]), ElementsAre(1.5f * 1e30f, 2, 5.5f));
  EXPECT_EQ((*merged)->manifest.contributors, 3u);
  EXPECT_EQ((*merged)->manifest.total_weight, 3.5);
  EXPECT_EQ((*merged)->manifest.updates_digest, "") << "the updates of a partial are not known";
  EXPECT_EQ((*merged)->manifest.result_digest, "");
  EXPECT_THAT(Values<float>(other->Report().value()->tensors[0]), ElementsAre(2 * 1e30f, 2, 1));
}

TEST_F(ReductionTest, RefusesPartialsOfOtherTensorsAndGoesOn) {
  const auto refused = FailsWith(absl::StatusCode::kFailedPrecondition, "SPEC_MISMATCH");
  const auto partials_of = [&](std::vector<TensorSpec> specs) {
    auto other = *engine_->NewReduction({.tensors = std::move(specs)});
    return *other->Snapshot();
  };
  ASSERT_TRUE(Add(Update({1}, {1})).ok());
  EXPECT_THAT(reduction_->Merge(partials_of({Sparse("emb", 11)})), refused);
  EXPECT_THAT(reduction_->Merge(partials_of({Sparse("emb", 10, "max")})), refused);
  EXPECT_THAT(reduction_->Merge(partials_of({Sparse("other", 10)})), refused);
  EXPECT_THAT(reduction_->Merge(partials_of({spec_, Sparse("b", 10)})), refused);
  EXPECT_THAT(reduction_->Merge({}), refused);
  const auto result = reduction_->Report();
  EXPECT_THAT(Values<float>((*result)->tensors[0]), ElementsAre(1));
  EXPECT_EQ((*result)->manifest.contributors, 1u);
  EXPECT_THAT(reduction_->Merge(partials_of({spec_})),
              FailsWith(absl::StatusCode::kFailedPrecondition, "REDUCTION_ENDED"));
  EXPECT_THAT(reduction_->Snapshot().status(),
              FailsWith(absl::StatusCode::kFailedPrecondition, "REDUCTION_ENDED"));
}

TEST_F(ReductionTest, ReservesTheMemoryOfMergedRows) {
  ASSERT_TRUE(Add(Update({1}, {1})).ok());
  const uint64_t before = engine_->Stats().aggregation_bytes;
  auto other = *engine_->NewReduction({.tensors = {spec_}});
  TestUpdate update = Update({0, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 1, 1, 1, 1, 1, 1, 1, 1});
  ASSERT_TRUE(other->Add(update.header, update.tensors()).ok());
  const RoundPartial partials = *other->Snapshot();
  other.reset();
  ASSERT_EQ(engine_->Stats().aggregation_bytes, before) << "partials are the caller's";
  ASSERT_TRUE(reduction_->Merge(partials).ok());
  EXPECT_GT(engine_->Stats().aggregation_bytes, before);
}

TEST_F(ReductionTest, RefusesABadSpecification) {
  EXPECT_THAT(engine_->NewReduction({}).status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_SPEC"));
  EXPECT_THAT(engine_->NewReduction({.tensors = {Sparse("t", 1, "median")}}).status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "UNKNOWN_OPERATOR"));
}

TEST_F(ReductionTest, FailsWithTheOverflowOfCheckedIntegers) {
  const TensorSpec spec = Sparse("hits", 4, "sum", ValueType::kU32);
  auto reduction = *engine_->NewReduction({.tensors = {spec}});
  for (int i = 0; i < 2; ++i) {
    TestUpdate update("", "", 1.0f, "");
    update.Add<uint32_t>(spec, {3}, {0x80000000u});
    ASSERT_TRUE(reduction->Add(update.header, update.tensors()).ok());
  }
  EXPECT_THAT(reduction->Report().status(),
              FailsWith(absl::StatusCode::kOutOfRange, "INTEGER_OVERFLOW"));
}

}  // namespace
}  // namespace sparseagg

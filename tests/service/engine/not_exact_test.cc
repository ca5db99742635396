// A back end loses an entry, or adds one twice: its round ends without a result, because the engine
// compares the number of added entries with the number of accepted ones. A real back end computes
// the rest.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "service/store/durable_store.h"
#include "sparse/reference_backend.h"
#include "tests/service/engine/testing.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using ::testing::AllOf;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::MakeBackend;
using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;
using testing::Values;

constexpr char kRound[] = "rounds/r";

enum class Fault { kNone, kStagesOneLess, kLosesTheLast, kAddsTheLastTwice, kForgetsTheUpdate };

// An aggregator that is wrong for the tensor "broken".
class WrongAggregator : public Aggregator {
 public:
  WrongAggregator(std::unique_ptr<Aggregator> inner, const ReduceSpec& spec, Fault fault)
      : inner_(std::move(inner)),
        layout_(spec.layout),
        wrong_(spec.name == "broken"),
        fault_(fault) {}

  absl::StatusOr<StagedUpdate> Stage(uint64_t nnz) const override {
    SPARSEAGG_ASSIGN_OR_RETURN(StagedUpdate update, inner_->Stage(nnz));
    if (wrong_ && fault_ == Fault::kStagesOneLess) --update.entries.nnz;
    return update;
  }
  absl::Status Accumulate(StagedUpdate update, float weight) override {
    if (!wrong_ || fault_ == Fault::kNone || fault_ == Fault::kStagesOneLess) {
      return inner_->Accumulate(std::move(update), weight);
    }
    if (fault_ == Fault::kForgetsTheUpdate) return absl::OkStatus();
    if (fault_ == Fault::kLosesTheLast) --update.entries.nnz;
    if (fault_ == Fault::kAddsTheLastTwice) {
      SPARSEAGG_ASSIGN_OR_RETURN(StagedUpdate last, inner_->Stage(1));
      const size_t row_bytes = layout_.row_bytes();
      const size_t e = update.entries.nnz - 1;
      last.entries.rows.wide()[0] = update.entries.rows.wide()[e];
      std::copy_n(static_cast<const char*>(update.entries.values) + e * row_bytes, row_bytes,
                  static_cast<char*>(last.entries.values));
      SPARSEAGG_RETURN_IF_ERROR(inner_->Accumulate(std::move(last), weight));
    }
    return inner_->Accumulate(std::move(update), weight);
  }
  absl::Status Merge(Partial partial) override { return inner_->Merge(std::move(partial)); }
  absl::StatusOr<Partial> Snapshot() override { return inner_->Snapshot(); }
  uint64_t memory_bytes() const override { return inner_->memory_bytes(); }
  PlanReport plan_report() const override { return inner_->plan_report(); }
  absl::StatusOr<Aggregate> Report() && override { return std::move(*inner_).Report(); }

 private:
  const std::unique_ptr<Aggregator> inner_;
  const TensorLayout layout_;
  const bool wrong_;
  const Fault fault_;
};

class WrongBackend : public Backend {
 public:
  WrongBackend(std::unique_ptr<Backend> inner, Fault fault)
      : fault(fault), inner_(std::move(inner)) {}

  Fault fault;  // of the aggregators made from now on

  const BackendInfo& info() const override { return inner_->info(); }
  absl::StatusOr<std::unique_ptr<Aggregator>> NewAggregator(const Plan& plan) override {
    SPARSEAGG_ASSIGN_OR_RETURN(auto aggregator, inner_->NewAggregator(plan));
    return std::make_unique<WrongAggregator>(std::move(aggregator), plan.spec, fault);
  }

 private:
  const std::unique_ptr<Backend> inner_;
};

class NotExactTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<WrongBackend> MakeWrong(Fault fault) const {
    auto inner = GetParam() == "reference" ? *MakeReferenceBackend({}) : MakeBackend(GetParam());
    return std::make_unique<WrongBackend>(std::move(inner), fault);
  }
  // The final snapshot of a round of 2 updates with 3 entries each.
  static std::string FailureOf(TestEngine& engine, const TensorSpec& tensor,
                               Durability durability = Durability::kMemory) {
    engine.Create(RoundSpec{.tensors = {tensor}, .durability = durability});
    for (const char* contributor : {"a", "b"}) {
      EXPECT_TRUE(
          engine
              .Submit(TestUpdate(kRound, contributor).Add<int32_t>(tensor, {1, 1, 4}, {10, 20, 30}))
              .ok());
    }
    EXPECT_TRUE(engine->SealRound(kRound).ok());
    const RoundSnapshot failed = engine.WaitUntilFinal(kRound);
    EXPECT_EQ(failed.state, RoundState::kAborted);
    EXPECT_THAT(engine->Result(kRound).status(),
                FailsWith(absl::StatusCode::kFailedPrecondition, "ROUND_NOT_PUBLISHED"));
    return failed.failure;
  }
  std::string FailureWith(Fault fault, const std::string& op = "sum") {
    TestEngine engine(MakeWrong(fault));
    return FailureOf(engine, Sparse("broken", 100, op, ValueType::kI32));
  }
};

TEST_P(NotExactTest, ALostEntryIsNoResult) {
  for (const char* op : {"sum", "mean_of_contributors", "max", "count"}) {
    EXPECT_THAT(FailureWith(Fault::kLosesTheLast, op),
                HasSubstr("tensor \"broken\": 4 of 6 entries are in the result"))
        << op;
  }
}

TEST_P(NotExactTest, AnEntryThatIsAddedTwiceIsNoResult) {
  EXPECT_THAT(FailureWith(Fault::kAddsTheLastTwice), HasSubstr("8 of 6 entries are in the result"));
}

TEST_P(NotExactTest, ALostUpdateIsNoResult) {
  EXPECT_THAT(FailureWith(Fault::kForgetsTheUpdate), HasSubstr("0 of 6 entries are in the result"));
}

TEST_P(NotExactTest, AnEntryThatIsLostBeforeTheFoldIsNoResult) {
  EXPECT_THAT(FailureWith(Fault::kStagesOneLess),
              HasSubstr("2 updates with 6 entries were accepted, 2 with 4 were folded in"));
}

TEST_P(NotExactTest, OtherRoundsGoOn) {
  TestEngine engine(MakeWrong(Fault::kLosesTheLast));
  const TensorSpec good = Sparse("good", 100, "sum", ValueType::kI32);
  engine.Create({good}, "other");
  ASSERT_TRUE(
      engine.Submit(TestUpdate("rounds/other", "a").Add<int32_t>(good, {1, 4}, {10, 30})).ok());
  FailureOf(engine, Sparse("broken", 100, "sum", ValueType::kI32));
  ASSERT_TRUE(
      engine.Submit(TestUpdate("rounds/other", "b").Add<int32_t>(good, {1, 4}, {1, 2})).ok());
  const auto result = engine.SealAndWait("rounds/other");
  EXPECT_EQ(Values<int32_t>(result->tensors[0]), (std::vector<int32_t>{11, 32}));
}

TEST_P(NotExactTest, ADurableRoundKeepsWhatItAcknowledged) {
  const testing::TemporaryFolder folder;
  auto backend = MakeWrong(Fault::kLosesTheLast);
  Fault& fault = backend->fault;
  TestEngine engine(std::move(backend), [&folder] {
    return *OpenDurableStore({.directory = folder.path(), .free_bytes_min = 0});
  });
  const TensorSpec tensor = Sparse("broken", 100, "sum", ValueType::kI32);
  EXPECT_THAT(FailureOf(engine, tensor, Durability::kDurable),
              AllOf(HasSubstr("4 of 6 entries"), HasSubstr("its updates are kept")));
  fault = Fault::kNone;
  ASSERT_TRUE(engine.Restart().ok());
  ASSERT_EQ(engine.WaitUntilFinal(kRound).state, RoundState::kPublished);
  EXPECT_EQ(Values<int32_t>((*engine->Result(kRound))->tensors[0]), (std::vector<int32_t>{60, 60}));
}

INSTANTIATE_TEST_SUITE_P(Backends, NotExactTest, ::testing::Values("reference", "cpu"));

}  // namespace
}  // namespace sparseagg

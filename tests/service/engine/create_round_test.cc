// The valid specifications and names of a round, and the idempotency of its creation.
#include <thread>

#include "tests/service/engine/testing.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::Sparse;
using testing::TestEngine;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class CreateRoundTest : public ::testing::Test {
 protected:
  absl::StatusOr<RoundSnapshot> Create(std::vector<TensorSpec> tensors, std::string round_id = "",
                                       std::string request_id = "") {
    return engine_->CreateRound({.round_id = std::move(round_id),
                                 .request_id = std::move(request_id),
                                 .spec = {.tensors = std::move(tensors)}});
  }
  TestEngine engine_;
};

TEST_F(CreateRoundTest, OpensARoundAndShowsHowItWillBeReduced) {
  TensorSpec spec = Sparse("emb", 10);
  spec.op = "";
  const auto round = Create({spec}, "my-round-1");
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_EQ(round->name, "rounds/my-round-1");
  EXPECT_EQ(round->state, RoundState::kOpen);
  EXPECT_EQ(round->spec.tensors[0].op, "sum");
  EXPECT_EQ(round->tensors[0].name, "emb");
  EXPECT_EQ(round->tensors[0].backend, "cpu");
  EXPECT_FALSE(round->tensors[0].reduction.plan.empty());
  EXPECT_FALSE(round->tensors[0].reduction.reason.empty());
  EXPECT_EQ(round->revision, 1u);
}

TEST_F(CreateRoundTest, MakesNamesThatDiffer) {
  const std::string a = Create({Sparse("t", 1)})->name;
  const std::string b = Create({Sparse("t", 1)})->name;
  EXPECT_NE(a, b);
  EXPECT_TRUE(engine_->GetRound(a).ok() && engine_->GetRound(b).ok());
}

TEST_F(CreateRoundTest, RefusesIdsOutsideTheirAlphabet) {
  for (const std::string& id :
       {std::string("A"), std::string("1a"), std::string("a_b"), std::string(64, 'a')}) {
    EXPECT_THAT(Create({Sparse("t", 1)}, id).status(), FailsWith(kInvalid, "INVALID_ROUND_ID"));
  }
  EXPECT_TRUE(Create({Sparse("t", 1)}, std::string(63, 'a')).ok());
  EXPECT_THAT(Create({Sparse("t", 1)}, "", std::string(65, 'x')).status(),
              FailsWith(kInvalid, "INVALID_REQUEST_ID"));
}

TEST_F(CreateRoundTest, RefusesSpecificationsWithTheReasonOfTheCore) {
  EXPECT_THAT(Create({}).status(), FailsWith(kInvalid, "INVALID_SPEC"));
  EXPECT_THAT(Create({Sparse("t", 1), Sparse("t", 2)}).status(),
              FailsWith(kInvalid, "DUPLICATE_TENSOR"));
  EXPECT_THAT(Create({Sparse("t", 0)}).status(), FailsWith(kInvalid, "INVALID_SPEC"));
  EXPECT_THAT(Create({Sparse("t", 1, "median")}).status(), FailsWith(kInvalid, "UNKNOWN_OPERATOR"));
  TensorSpec planned = Sparse("t", 1);
  planned.plan = "magic";
  EXPECT_THAT(Create({planned}).status(), FailsWith(kInvalid, "UNKNOWN_PLAN"));
  TensorSpec wide = Sparse("t", int64_t{1} << 62);
  wide.dense_shape = {int64_t{1} << 62, 4};
  wide.sparse_dim = 2;
  EXPECT_THAT(Create({wide}).status(), FailsWith(kInvalid, "INDEX_SPACE_TOO_LARGE"));
  EXPECT_TRUE(engine_->ListRounds("", 10).empty()) << "nothing is left of a refused round";
}

TEST_F(CreateRoundTest, NamesTheDurabilitiesItHas) {
  const absl::Status refused =
      engine_
          ->CreateRound({.spec = {.tensors = {Sparse("t", 1)}, .durability = Durability::kDurable}})
          .status();
  EXPECT_THAT(refused, FailsWith(kInvalid, "DURABILITY_UNSUPPORTED"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("memory"));
}

TEST_F(CreateRoundTest, TakesTheDefaultDurabilityWhenNoneIsStated) {
  const auto round =
      engine_->CreateRound({.spec = {.tensors = {Sparse("t", 1)}, .durability = Durability{}}});
  EXPECT_EQ(round->spec.durability, Durability::kMemory);
}

TEST_F(CreateRoundTest, AnswersARepeatedRequestWithItsRound) {
  const auto first = Create({Sparse("t", 1)}, "", "req-1");
  const auto again = Create({Sparse("t", 1)}, "", "req-1");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->name, first->name);
  EXPECT_EQ(engine_->ListRounds("", 10).size(), 1u);
}

TEST_F(CreateRoundTest, RefusesARequestIdForSomethingElse) {
  ASSERT_TRUE(Create({Sparse("t", 1)}, "a", "req-1").ok());
  EXPECT_THAT(Create({Sparse("t", 2)}, "a", "req-1").status(),
              FailsWith(kInvalid, "REQUEST_ID_CONFLICT"));
  EXPECT_THAT(Create({Sparse("t", 1)}, "b", "req-1").status(),
              FailsWith(kInvalid, "REQUEST_ID_CONFLICT"));
}

TEST_F(CreateRoundTest, GivesANameOnce) {
  ASSERT_TRUE(Create({Sparse("t", 1)}, "a").ok());
  EXPECT_THAT(Create({Sparse("t", 1)}, "a").status(),
              FailsWith(absl::StatusCode::kAlreadyExists, "ROUND_EXISTS"));
  ASSERT_TRUE(engine_->AbortRound("rounds/a").ok());
  ASSERT_TRUE(engine_->DeleteRound("rounds/a").ok());
  EXPECT_THAT(Create({Sparse("t", 1)}, "a").status(),
              FailsWith(absl::StatusCode::kAlreadyExists, "ROUND_EXISTS"))
      << "a late retry must not count in another round";
}

TEST_F(CreateRoundTest, ForgetsARequestWithItsRound) {
  ASSERT_TRUE(Create({Sparse("t", 1)}, "a", "req-1").ok());
  ASSERT_TRUE(engine_->AbortRound("rounds/a").ok());
  ASSERT_TRUE(engine_->DeleteRound("rounds/a").ok());
  EXPECT_EQ(Create({Sparse("t", 1)}, "b", "req-1")->name, "rounds/b");
}

TEST_F(CreateRoundTest, KeepsToTheNumberOfRoundsAndTensors) {
  engine_.options.limits.rounds_max = 2;
  engine_.options.limits.round_tensors_max = 1;
  EXPECT_THAT(Create({Sparse("a", 1), Sparse("b", 1)}).status(),
              FailsWith(kInvalid, "INVALID_SPEC"));
  ASSERT_TRUE(Create({Sparse("t", 1)}, "a", "req").ok());
  ASSERT_TRUE(Create({Sparse("t", 1)}, "b").ok());
  EXPECT_THAT(Create({Sparse("t", 1)}, "c").status(),
              FailsWith(absl::StatusCode::kResourceExhausted, "ROUNDS_FULL"));
  EXPECT_EQ(Create({Sparse("t", 1)}, "a", "req")->name, "rounds/a") << "a retry is still answered";
}

TEST_F(CreateRoundTest, ListsByNameInPages) {
  for (const char* id : {"c", "a", "b"}) ASSERT_TRUE(Create({Sparse("t", 1)}, id).ok());
  const auto names = [](const std::vector<RoundSnapshot>& rounds) {
    std::vector<std::string> names;
    for (const auto& round : rounds) names.push_back(round.name);
    return names;
  };
  EXPECT_THAT(names(engine_->ListRounds("", 2)), ElementsAre("rounds/a", "rounds/b"));
  EXPECT_THAT(names(engine_->ListRounds("rounds/b", 2)), ElementsAre("rounds/c"));
}

TEST_F(CreateRoundTest, MakesOneRoundOfRacingRequests) {
  engine_.engine();
  std::vector<std::string> names(16);
  {
    std::vector<std::jthread> threads;
    for (std::string& name : names) {
      threads.emplace_back([&] { name = Create({Sparse("t", 1)}, "", "req")->name; });
    }
  }
  EXPECT_THAT(names, ::testing::Each(names[0]));
  EXPECT_EQ(engine_->ListRounds("", 100).size(), 1u);
}

}  // namespace
}  // namespace sparseagg

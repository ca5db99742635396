// Every state with every event, in the table and in a running engine.
#include "service/engine/round_state.h"

#include "tests/service/engine/testing.h"

namespace sparseagg {
namespace {

using testing::FailsWith;
using testing::Sparse;
using testing::TestEngine;

constexpr RoundState kStates[] = {RoundState::kOpen, RoundState::kSealed, RoundState::kPublished,
                                  RoundState::kRetired, RoundState::kAborted};
constexpr RoundEvent kEvents[] = {RoundEvent::kSeal, RoundEvent::kPublish, RoundEvent::kRetire,
                                  RoundEvent::kAbort};

// One row for each state, one column for each event: the state after it, or nothing.
constexpr std::optional<RoundState> kNo = std::nullopt;
constexpr std::optional<RoundState> kExpected[5][4] = {
    /* OPEN      */ {RoundState::kSealed, kNo, kNo, RoundState::kAborted},
    /* SEALED    */ {RoundState::kSealed, RoundState::kPublished, kNo, RoundState::kAborted},
    /* PUBLISHED */ {RoundState::kPublished, kNo, RoundState::kRetired, kNo},
    /* RETIRED   */ {kNo, kNo, RoundState::kRetired, kNo},
    /* ABORTED   */ {kNo, kNo, kNo, RoundState::kAborted},
};

TEST(RoundStateTest, NextFollowsTheTable) {
  for (int s = 0; s < 5; ++s) {
    for (int e = 0; e < 4; ++e) {
      EXPECT_EQ(Next(kStates[s], kEvents[e]), kExpected[s][e])
          << RoundStateName(kStates[s]) << ", event " << e + 1;
    }
  }
}

TEST(RoundStateTest, AFinalStateLeadsToNoOtherButRetired) {
  for (const RoundState state : kStates) {
    if (!IsFinal(state)) continue;
    for (const RoundEvent event : kEvents) {
      const auto next = Next(state, event);
      EXPECT_TRUE(!next || *next == state || *next == RoundState::kRetired);
    }
  }
}

// Brings a round into a state. The clock is stopped if the state would not last otherwise.
class RoundEventTest : public ::testing::Test {
 protected:
  std::string RoundIn(RoundState state) {
    const std::string name = engine_.Create({Sparse("t", 4)}).name;
    if (state == RoundState::kSealed) {
      engine_.clock.Stop();
      EXPECT_TRUE(engine_->SealRound(name).ok());
    }
    if (state == RoundState::kPublished) engine_.SealAndWait(name);
    if (state == RoundState::kAborted) {
      EXPECT_TRUE(engine_->AbortRound(name).ok());
    }
    EXPECT_EQ(engine_->GetRound(name)->state, state);
    return name;
  }

  TestEngine engine_;
};

TEST_F(RoundEventTest, SealsAnOpenRoundAndRepeatsForASealedOrPublishedOne) {
  EXPECT_EQ(engine_->SealRound(RoundIn(RoundState::kOpen))->state, RoundState::kSealed);
  EXPECT_EQ(engine_->SealRound(RoundIn(RoundState::kPublished))->state, RoundState::kPublished);
  EXPECT_EQ(engine_->SealRound(RoundIn(RoundState::kSealed))->state, RoundState::kSealed);
}

TEST_F(RoundEventTest, DoesNotSealAnAbortedRound) {
  EXPECT_THAT(engine_->SealRound(RoundIn(RoundState::kAborted)).status(),
              FailsWith(absl::StatusCode::kFailedPrecondition, "ROUND_NOT_OPEN"));
}

TEST_F(RoundEventTest, AbortsAnOpenOrSealedRoundAndRepeatsForAnAbortedOne) {
  EXPECT_EQ(engine_->AbortRound(RoundIn(RoundState::kOpen))->state, RoundState::kAborted);
  EXPECT_EQ(engine_->AbortRound(RoundIn(RoundState::kAborted))->state, RoundState::kAborted);
  const std::string sealed = RoundIn(RoundState::kSealed);
  EXPECT_EQ(engine_->AbortRound(sealed)->state, RoundState::kAborted);
  engine_.clock.GoOn();
  engine_->Drain();  // the publication that was queued finds the round aborted
  EXPECT_EQ(engine_->GetRound(sealed)->state, RoundState::kAborted);
}

TEST_F(RoundEventTest, DoesNotAbortAPublishedRound) {
  const std::string name = RoundIn(RoundState::kPublished);
  EXPECT_THAT(engine_->AbortRound(name).status(),
              FailsWith(absl::StatusCode::kFailedPrecondition, "ROUND_NOT_ABORTABLE"));
  EXPECT_TRUE(engine_->Result(name).ok());
}

TEST_F(RoundEventTest, DeletesOnlyARoundInAFinalState) {
  for (const RoundState state : {RoundState::kOpen, RoundState::kSealed}) {
    const std::string name = RoundIn(state);
    EXPECT_THAT(engine_->DeleteRound(name),
                FailsWith(absl::StatusCode::kFailedPrecondition, "ROUND_NOT_FINAL"));
    EXPECT_EQ(engine_->GetRound(name)->state, state);
  }
  engine_.clock.GoOn();
  for (const RoundState state : {RoundState::kPublished, RoundState::kAborted}) {
    EXPECT_TRUE(engine_->DeleteRound(RoundIn(state)).ok());
  }
}

TEST_F(RoundEventTest, KnowsADeletedRoundNoMore) {
  const std::string name = RoundIn(RoundState::kPublished);
  ASSERT_TRUE(engine_->DeleteRound(name).ok());
  const auto not_found = FailsWith(absl::StatusCode::kNotFound, "ROUND_EXPIRED");
  EXPECT_THAT(engine_->GetRound(name).status(), not_found);
  EXPECT_THAT(engine_->SealRound(name).status(), not_found);
  EXPECT_THAT(engine_->AbortRound(name).status(), not_found);
  EXPECT_TRUE(engine_->DeleteRound(name).ok()) << "it is gone, as asked";
  EXPECT_THAT(engine_->Result(name).status(), not_found);
  EXPECT_THAT(engine_->Watch(name, WatchScope::kEnd, [](const auto&) {}).status(), not_found);
}

TEST_F(RoundEventTest, HasAResultOnlyWhenPublished) {
  for (const RoundState state : {RoundState::kOpen, RoundState::kAborted, RoundState::kSealed}) {
    EXPECT_THAT(engine_->Result(RoundIn(state)).status(),
                FailsWith(absl::StatusCode::kFailedPrecondition, "ROUND_NOT_PUBLISHED"));
  }
  engine_.clock.GoOn();
  EXPECT_TRUE(engine_->Result(RoundIn(RoundState::kPublished)).ok());
}

TEST_F(RoundEventTest, StampsTheChangesWithTimes) {
  const std::string name = RoundIn(RoundState::kPublished);
  const RoundSnapshot round = *engine_->GetRound(name);
  ASSERT_TRUE(round.seal_time.has_value() && round.publish_time.has_value());
  EXPECT_LE(round.create_time, *round.seal_time);
  EXPECT_LE(*round.seal_time, *round.publish_time);
  ASSERT_TRUE(round.manifest.has_value());
  EXPECT_EQ(round.manifest->publish_time, *round.publish_time);
}

}  // namespace
}  // namespace sparseagg

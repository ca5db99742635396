// Tests of claims: memory that is reserved in parts, by more claims than fit in the budget at once.
#include "service/engine/memory/admission.h"

#include <gtest/gtest.h>

#include <iostream>
#include <random>
#include <vector>

#include "base/status.h"
#include "tests/support/effort.h"

namespace sparseagg {
namespace {

TEST(ClaimTest, CostsNothingUntilItTakes) {
  Admission admission(100);
  std::vector<Claim> claims;
  for (int i = 0; i < 1000; ++i) {
    auto claim = admission.Announce(90);
    ASSERT_TRUE(claim.ok()) << claim.status();
    claims.push_back(*std::move(claim));
  }
  EXPECT_EQ(admission.bytes_in_use(), 0u);
  ASSERT_TRUE(claims[0].Take(10).ok());
  EXPECT_EQ(admission.bytes_in_use(), 10u);
  claims.clear();
  EXPECT_EQ(admission.bytes_in_use(), 0u);
}

TEST(ClaimTest, LeavesRoomForTheOldestToFinish) {
  Admission admission(100);
  Claim oldest = *admission.Announce(60);
  Claim other = *admission.Announce(60);
  ASSERT_TRUE(other.Take(40).ok());
  const absl::Status full = other.Take(1);
  EXPECT_EQ(ErrorReason(full), "STAGING_FULL");
  EXPECT_GT(RetryAfterMs(full), 0u);
  EXPECT_EQ(ErrorReason(admission.Reserve(1).status()), "STAGING_FULL") << "nobody takes that room";
  ASSERT_TRUE(oldest.Take(50).ok());
  ASSERT_TRUE(oldest.TakeReservation(10).ok());
  oldest = Claim();
  EXPECT_TRUE(other.Take(20).ok()) << "it is the oldest now";
}

TEST(ClaimTest, WhatIsTakenApartOutlivesTheClaim) {
  Admission admission(100);
  Reservation apart;
  {
    Claim claim = *admission.Announce(100);
    ASSERT_TRUE(claim.Take(30).ok());
    apart = *claim.TakeReservation(70);
    EXPECT_EQ(admission.bytes_in_use(), 100u);
  }
  EXPECT_EQ(admission.bytes_in_use(), 70u);
}

TEST(ClaimTest, IsSettledAtOnceWhileHalfStaysFree) {
  Admission admission(100);
  Claim settled = *admission.Announce(60);
  ASSERT_TRUE(settled.Take(5).ok());
  const auto apart = settled.TakeIfPlenty(30);
  settled.Settle();
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_EQ(admission.bytes_in_use(), 35u);
  settled.Release(5);
  EXPECT_EQ(admission.bytes_in_use(), 30u);
  EXPECT_TRUE(admission.Reserve(70).ok()) << "nothing is kept for it any more";

  Claim refused = *admission.Announce(60);
  EXPECT_EQ(ErrorReason(refused.TakeIfPlenty(21).status()), "STAGING_FULL");
  EXPECT_EQ(admission.bytes_in_use(), 30u);
  Claim younger = *admission.Announce(60);
  EXPECT_FALSE(younger.Take(11).ok()) << "the refused one still has its room";
  EXPECT_TRUE(refused.Take(60).ok()) << "it is the oldest of those that need something";
}

TEST(ClaimTest, OfATenantIsSettledInBothBudgetsOrInNone) {
  Admission own(40, kTenantBudget);
  Admission whole(1000);
  Admission both(own, whole);
  Claim claim = *both.Announce(40);
  EXPECT_EQ(ErrorReason(claim.TakeIfPlenty(30).status()), "TENANT_BYTES_FULL");
  EXPECT_EQ(own.bytes_in_use() + whole.bytes_in_use(), 0u);
  const auto apart = claim.TakeIfPlenty(20);
  claim.Settle();
  ASSERT_TRUE(apart.ok());
  EXPECT_EQ(own.bytes_in_use(), 20u);
  EXPECT_EQ(whole.bytes_in_use(), 20u);
}

TEST(ClaimTest, OfATenantGivesBackToBothBudgets) {
  Admission own(40, kTenantBudget);
  Admission whole(1000);
  Admission both(own, whole);
  Claim claim = *both.Announce(40);
  ASSERT_TRUE(claim.Take(30).ok());
  claim.Release(20);
  EXPECT_EQ(own.bytes_in_use(), 10u);
  EXPECT_EQ(whole.bytes_in_use(), 10u);
}

TEST(ClaimTest, RefusesWhatWillNeverFit) {
  Admission admission(100);
  const absl::Status never = admission.Announce(101).status();
  EXPECT_EQ(ErrorReason(never), "UPDATE_TOO_LARGE");
  EXPECT_EQ(RetryAfterMs(never), 0u);
}

// However many claims there are and in whatever order they grow, one can always continue, and all
// complete.
TEST(ClaimTest, AllOfThemFinishWhateverTheOrder) {
  const int runs = testing::Effort("SPARSEAGG_CLAIM_RUNS", 300);
  for (int run = 0; run < runs; ++run) {
    std::mt19937 random(static_cast<unsigned>(run));
    Admission admission(1000);
    struct Sender {
      Claim claim;
      uint64_t need = 0;
      uint64_t taken = 0;
      bool begun = false;
      bool done = false;
    };
    std::vector<Sender> senders(2 + random() % 40);
    for (Sender& sender : senders) sender.need = 1 + random() % 1000;
    size_t done = 0;
    for (int idle = 0; done < senders.size(); ++idle) {
      ASSERT_LT(idle, 100'000) << "nobody can go on, seed " << run;
      Sender& sender = senders[random() % senders.size()];
      if (sender.done) continue;
      if (!sender.begun) {
        auto claim = admission.Announce(sender.need);
        if (!claim.ok()) continue;
        sender.claim = *std::move(claim);
        sender.begun = true;
      }
      const uint64_t more = std::min<uint64_t>(1 + random() % 100, sender.need - sender.taken);
      if (!sender.claim.Take(more).ok()) continue;
      idle = 0;
      sender.taken += more;
      ASSERT_LE(admission.bytes_in_use(), 1000u);
      if (sender.taken < sender.need) continue;
      sender.claim = Claim();
      sender.done = true;
      ++done;
    }
    EXPECT_EQ(admission.bytes_in_use(), 0u);
  }
}

}  // namespace
}  // namespace sparseagg

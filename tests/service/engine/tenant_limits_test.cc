// The limits of one tenant, and that other tenants are not affected.
#include "service/engine/memory/admission.h"
#include "service/engine/tenant_engines.h"
#include "tests/service/engine/testing.h"

namespace sparseagg {
namespace {

using testing::FailsWith;
using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;

class TenantLimitsTest : public ::testing::Test {
 protected:
  Engine& As(std::string_view tenant) {
    if (!tenants_.has_value()) tenants_.emplace(engine_.engine());
    return tenants_->Of(tenant);
  }
  absl::StatusOr<RoundSnapshot> Create(std::string_view tenant, const std::string& id,
                                       const std::string& request_id = "") {
    return As(tenant).CreateRound(
        {.round_id = id, .request_id = request_id, .spec = {.tensors = {Sparse("t", 1'000'000)}}});
  }
  absl::StatusOr<Receipt> Submit(std::string_view tenant, const std::string& contributor,
                                 size_t entries) {
    std::vector<int64_t> rows(entries);
    for (size_t i = 0; i < entries; ++i) rows[i] = static_cast<int64_t>(i);
    TestUpdate update = TestUpdate("rounds/r", contributor)
                            .Add(Sparse("t", 1'000'000), rows, std::vector<float>(entries, 1));
    return As(tenant).Submit(update.header, update.tensors());
  }

  TestEngine engine_;
  std::optional<TenantEngines> tenants_;
};

TEST_F(TenantLimitsTest, ATenantsRoundsAreCountedApart) {
  engine_.options.limits.tenant_rounds_max = 2;
  ASSERT_TRUE(Create("acme", "a", "request").ok());
  ASSERT_TRUE(Create("acme", "b").ok());
  const absl::Status full = Create("acme", "c").status();
  EXPECT_THAT(full, FailsWith(absl::StatusCode::kResourceExhausted, "TENANT_ROUNDS_FULL"));
  EXPECT_THAT(std::string(full.message()), ::testing::HasSubstr("tenant-rounds-max = 2"));
  EXPECT_TRUE(Create("acme", "a", "request").ok()) << "a repeated request makes no round";
  EXPECT_TRUE(Create("other", "c").ok());
  ASSERT_TRUE(As("acme").AbortRound("rounds/a").ok());
  ASSERT_TRUE(As("acme").DeleteRound("rounds/a").ok());
  EXPECT_TRUE(Create("acme", "c").ok());
}

TEST_F(TenantLimitsTest, ATenantsMemoryIsItsOwnAndComesBack) {
  engine_.options.limits.tenant_bytes_max = 4 << 20;
  for (const char* tenant : {"acme", "other"}) ASSERT_TRUE(Create(tenant, "r").ok());
  const absl::Status full = Submit("acme", "a", 900'000).status();
  EXPECT_THAT(full, FailsWith(absl::StatusCode::kResourceExhausted, "TENANT_BYTES_FULL"));
  EXPECT_THAT(std::string(full.message()), ::testing::HasSubstr("tenant-bytes-max"));
  EXPECT_TRUE(Submit("acme", "b", 10).ok());
  EXPECT_TRUE(Submit("other", "a", 10).ok());
}

TEST_F(TenantLimitsTest, ATenantsUploadsAreCountedApart) {
  engine_.options.limits.tenant_uploads_max = 2;
  const auto begin = [this](std::string_view tenant, const std::string& contributor) {
    TestUpdate update("rounds/r", contributor);
    update.Add<float>(Sparse("t", 1'000'000), {1}, {1});
    return As(tenant).BeginUpload(update.header, update.headers());
  };
  for (const std::string_view tenant : {kDefaultTenant, std::string_view("acme")}) {
    ASSERT_TRUE(Create(tenant, "r").ok());
    EXPECT_TRUE(begin(tenant, "a").ok());
    EXPECT_TRUE(begin(tenant, "b").ok());
    const absl::Status full = begin(tenant, "c").status();
    EXPECT_THAT(full, FailsWith(absl::StatusCode::kResourceExhausted, "TENANT_UPLOADS_FULL"));
    EXPECT_THAT(std::string(full.message()), ::testing::HasSubstr("tenant-uploads-max = 2"));
    EXPECT_GT(RetryAfterMs(full), 0u);
    const auto resumed = begin(tenant, "a");
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    (*resumed)->Refuse(absl::AbortedError("too slow"));
  }
  EXPECT_TRUE(begin("acme", "c").ok()) << "one has ended";
}

TEST_F(TenantLimitsTest, ATenantCanHaveLimitsOfItsOwn) {
  engine_.options.limits.tenant_rounds_max = 1;
  engine_.options.tenant_limits = [](std::string_view tenant) {
    return TenantLimits{.rounds_max = tenant == "acme" ? 2u : 1u};
  };
  ASSERT_TRUE(Create("acme", "a").ok());
  EXPECT_TRUE(Create("acme", "b").ok());
  ASSERT_TRUE(Create("other", "a").ok());
  EXPECT_FALSE(Create("other", "b").ok());
}

TEST_F(TenantLimitsTest, AResultThatIsReadHoldsItsMemoryAfterItsRound) {
  ASSERT_TRUE(Create("acme", "r").ok());
  ASSERT_TRUE(Submit("acme", "a", 1000).ok());
  std::shared_ptr<const PublishedResult> result = engine_.SealAndWait("tenants/acme/rounds/r");
  ASSERT_TRUE(As("acme").DeleteRound("rounds/r").ok());
  EXPECT_GE(engine_->Stats().aggregation_bytes, 1000 * (sizeof(uint64_t) + sizeof(float)));
  result.reset();
  EXPECT_EQ(engine_->Stats().aggregation_bytes, 0u);
}

TEST_F(TenantLimitsTest, AResultMayBeReadLongerThanThereIsAnEngine) {
  ASSERT_TRUE(Create("acme", "r").ok());
  ASSERT_TRUE(Submit("acme", "a", 1000).ok());
  const auto result = engine_.SealAndWait("tenants/acme/rounds/r");
  ASSERT_TRUE(engine_.Restart().ok());
  EXPECT_EQ(result->tensors[0].nnz(), 1000u);
}

TEST(AdmissionTest, WhatIsFreeIsTheLessOfBoth) {
  Admission whole(100);
  Admission own(80, kTenantBudget);
  const Admission part(own, whole);
  EXPECT_EQ(part.bytes_free(), 80u);
  const Reservation others = whole.Reserve(90).value();
  EXPECT_EQ(part.bytes_free(), 10u);
  const Claim claim = whole.Announce(10).value();
  EXPECT_EQ(part.bytes_free(), 0u) << "the claim may take the rest";
}

TEST(AdmissionTest, WhatTheWholeRefusesIsNotTakenFromThePart) {
  Admission whole(100);
  Admission own(80, kTenantBudget);
  Admission part(own, whole);
  Reservation first = part.Reserve(60).value();
  EXPECT_EQ(own.bytes_in_use(), 60u);
  EXPECT_EQ(whole.bytes_in_use(), 60u);
  EXPECT_EQ(ErrorReason(part.Reserve(30).status()), "TENANT_BYTES_FULL");
  Reservation others = whole.Reserve(30).value();
  EXPECT_EQ(ErrorReason(part.Reserve(20).status()), "STAGING_FULL");
  EXPECT_EQ(own.bytes_in_use(), 60u);
  first.SetBytes(10);
  const Reservation cut = first.Split(4);
  EXPECT_EQ(own.bytes_in_use(), 10u);
  EXPECT_EQ(whole.bytes_in_use(), 40u);
  first = {};
  EXPECT_EQ(own.bytes_in_use(), 4u);
  EXPECT_EQ(whole.bytes_in_use(), 34u);
}

}  // namespace
}  // namespace sparseagg

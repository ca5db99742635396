// Tenants do not see each other: not by names, not by errors, not after a restart.
#include "service/engine/tenant_engines.h"

#include "service/store/durable_store.h"
#include "tests/service/engine/testing.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::IsEmpty;
using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;

class TenantEnginesTest : public ::testing::Test {
 protected:
  std::unique_ptr<UpdateStore> Open() {
    auto store = OpenDurableStore({.directory = folder_.path(), .free_bytes_min = 0});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  Engine& As(std::string_view tenant) { return tenants_->Of(tenant); }
  void Restart() {
    tenants_.reset();
    ASSERT_TRUE(engine_.Restart().ok());
    tenants_.emplace(engine_.engine());
  }
  absl::StatusOr<RoundSnapshot> Create(std::string_view tenant, const std::string& id,
                                       const std::string& request_id = "", int64_t rows = 10) {
    return As(tenant).CreateRound(
        {.round_id = id,
         .request_id = request_id,
         .spec = {.tensors = {Sparse("t", rows)}, .durability = Durability::kDurable}});
  }
  absl::StatusOr<Receipt> Submit(std::string_view tenant, const std::string& round, float value) {
    TestUpdate update = TestUpdate(round, "phone").Add(Sparse("t", 10), {1}, {value});
    return As(tenant).Submit(update.header, update.tensors());
  }
  std::vector<std::string> Names(std::string_view tenant, std::string_view after = "",
                                 size_t limit = 100) {
    std::vector<std::string> names;
    for (const RoundSnapshot& round : As(tenant).ListRounds(after, limit)) {
      EXPECT_EQ(round.tenant, tenant);
      names.push_back(round.name);
    }
    return names;
  }

  testing::TemporaryFolder folder_;
  TestEngine engine_{testing::MakeBackend("cpu"), [this] { return Open(); }};
  std::optional<TenantEngines> tenants_{engine_.engine()};
};

TEST_F(TenantEnginesTest, TheSameNamesAndRequestsAreDifferentRoundsForEachTenant) {
  for (const char* tenant : {"default", "acme", "acme-2"}) {
    const auto round = Create(tenant, "a", "request", /*rows=*/10);
    ASSERT_TRUE(round.ok()) << round.status();
    EXPECT_EQ(round->name, "rounds/a");
    EXPECT_EQ(round->tenant, tenant);
  }
  float value = 1;
  for (const char* tenant : {"default", "acme", "acme-2"}) {
    const auto receipt = Submit(tenant, "rounds/a", value++);
    ASSERT_TRUE(receipt.ok()) << receipt.status();
    EXPECT_EQ(receipt->round, "rounds/a");
    EXPECT_EQ(receipt->sequence, 1u);
    EXPECT_FALSE(receipt->duplicate);
  }
  EXPECT_EQ(As("acme").GetRound("rounds/a")->contributors, 1u);
}

TEST_F(TenantEnginesTest, AnotherTenantsRoundDoesNotExistInTheSameWords) {
  ASSERT_TRUE(Create("acme", "secret").ok());
  const absl::Status theirs = As("other").GetRound("rounds/secret").status();
  const absl::Status nobodys = As("other").GetRound("rounds/nobody").status();
  EXPECT_THAT(theirs, FailsWith(absl::StatusCode::kNotFound, "ROUND_NOT_FOUND"));
  EXPECT_EQ(nobodys.message(), "round \"rounds/nobody\" does not exist");
  EXPECT_EQ(theirs.message(), "round \"rounds/secret\" does not exist");

  const auto not_found = FailsWith(absl::StatusCode::kNotFound, "ROUND_NOT_FOUND");
  EXPECT_THAT(As("other").SealRound("rounds/secret").status(), not_found);
  EXPECT_THAT(As("other").AbortRound("rounds/secret").status(), not_found);
  EXPECT_THAT(As("other").DeleteRound("rounds/secret"), not_found);
  EXPECT_THAT(As("other").Watch("rounds/secret", WatchScope::kEnd, [](const auto&) {}).status(),
              not_found);
  EXPECT_THAT(As("other").Result("rounds/secret").status(), not_found);
  EXPECT_THAT(Submit("other", "rounds/secret", 1).status(), not_found);
  EXPECT_THAT(As("other").BeginUpload(TestUpdate("rounds/secret", "phone").header, {}).status(),
              not_found);
  EXPECT_FALSE(As("other").WaitsForDisk("rounds/secret"));
  EXPECT_TRUE(As("acme").WaitsForDisk("rounds/secret"));
}

TEST_F(TenantEnginesTest, NoNameReachesIntoAnotherTenant) {
  ASSERT_TRUE(Create("acme", "a").ok());
  for (const char* tenant : {"default", "other", "acme"}) {
    for (const char* name : {"tenants/acme/rounds/a", "../acme/rounds/a", "rounds/../a"}) {
      EXPECT_THAT(As(tenant).GetRound(name).status(),
                  FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_ROUND_NAME"));
    }
  }
}

TEST_F(TenantEnginesTest, ListsItsOwnRoundsPageByPage) {
  for (const char* tenant : {"acme", "default", "acme-2"}) {
    for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(Create(tenant, id).ok());
  }
  for (const char* tenant : {"acme", "default", "acme-2"}) {
    EXPECT_THAT(Names(tenant), ElementsAre("rounds/a", "rounds/b", "rounds/c"));
    EXPECT_THAT(Names(tenant, "", 2), ElementsAre("rounds/a", "rounds/b"));
    EXPECT_THAT(Names(tenant, "rounds/b", 2), ElementsAre("rounds/c"));
    EXPECT_THAT(Names(tenant, "rounds/c", 2), IsEmpty());
    EXPECT_THAT(Names(tenant, "zzz", 2), IsEmpty());
  }
  EXPECT_THAT(Names("nobody"), IsEmpty());
}

TEST_F(TenantEnginesTest, ErrorsNameTheRoundAsItsTenantDoes) {
  ASSERT_TRUE(Create("acme", "a", "request").ok());
  for (const absl::Status& status :
       {Create("acme", "a").status(), As("acme").DeleteRound("rounds/a"),
        As("acme").Result("rounds/a").status(), Create("acme", "b", "request").status()}) {
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("\"rounds/a\""));
  }
}

TEST_F(TenantEnginesTest, RoundsStayTheirTenantsOverARestart) {
  ASSERT_TRUE(Create("acme", "a", "request").ok());
  ASSERT_TRUE(Create("default", "a").ok());
  ASSERT_TRUE(Submit("acme", "rounds/a", 3).ok());
  Restart();
  EXPECT_THAT(Names("acme"), ElementsAre("rounds/a"));
  EXPECT_THAT(Names("default"), ElementsAre("rounds/a"));
  EXPECT_EQ(As("acme").GetRound("rounds/a")->contributors, 1u);
  EXPECT_EQ(As("default").GetRound("rounds/a")->contributors, 0u);
  EXPECT_TRUE(Submit("acme", "rounds/a", 3)->duplicate);
  // The request id is known to its tenant only.
  EXPECT_TRUE(Create("acme", "a", "request").ok());
  EXPECT_TRUE(Create("other", "a", "request").ok());
  EXPECT_EQ(As("other").GetRound("rounds/a")->contributors, 0u);
}

}  // namespace
}  // namespace sparseagg

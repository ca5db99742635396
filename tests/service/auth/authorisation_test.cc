#include "service/auth/authorisation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/status.h"
#include "sparseagg/v1/aggregation.pb.h"
#include "sparseagg/v1/tasks.pb.h"

namespace sparseagg {
namespace {

Caller Phone(RoleSet roles) { return {.tenant = "acme", .principal = "phone-1", .roles = roles}; }

TEST(AuthorisationTest, EveryRpcOfTheServicesHasOneRow) {
  std::multiset<std::string> rows;
  for (const RpcRule& rule : RpcRules()) {
    if (rule.rpc.find('/') == std::string_view::npos) rows.insert(std::string(rule.rpc));
  }
  std::multiset<std::string> rpcs;
  for (const auto* file : {v1::GetServerInfoRequest::descriptor()->file(),
                           v1::AcquireTasksRequest::descriptor()->file()}) {
    const auto* service = file->service(0);
    for (int i = 0; i < service->method_count(); ++i) rpcs.insert(service->method(i)->name());
  }
  EXPECT_EQ(rows, rpcs);
}

TEST(AuthorisationTest, AnRpcWithoutARowIsRefused) {
  const absl::Status status = Authorise(Phone(RoleSet::All()), "StealRound");
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ErrorReason(status), "ROLE_MISSING");
}

TEST(AuthorisationTest, OneOfSeveralRolesSuffices) {
  EXPECT_TRUE(Authorise(Phone({Role::kContributor, Role::kReader}), "GetAggregate").ok());
  EXPECT_TRUE(Authorise(Phone({Role::kContributor, Role::kReader}), "SubmitUpdate").ok());
  EXPECT_FALSE(Authorise(Phone({Role::kContributor, Role::kReader}), "SealRound").ok());
  EXPECT_FALSE(Authorise(Phone({}), "GetRound").ok());
}

TEST(AuthorisationTest, ContributorsSendInTheirOwnNameOrBelowIt) {
  const Caller phone = Phone({Role::kContributor});
  for (const char* own : {"phone-1", "phone-1/app", "phone-1/a/b", "phone-1/"}) {
    EXPECT_TRUE(AuthoriseContributor(phone, own).ok()) << own;
  }
  for (const char* other : {"", "phone", "phone-10", "phone-2", "phone-1.x", "x/phone-1"}) {
    const absl::Status status = AuthoriseContributor(phone, other);
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << other;
    EXPECT_EQ(ErrorReason(status), "CONTRIBUTOR_NOT_YOURS") << other;
  }
}

TEST(AuthorisationTest, OnlyAnOwnerSendsForOthers) {
  EXPECT_TRUE(AuthoriseContributor(Phone({Role::kOwner}), "phone-2").ok());
  EXPECT_FALSE(AuthoriseContributor(Phone({Role::kOperator, Role::kReader}), "phone-1").ok());
}

}  // namespace
}  // namespace sparseagg

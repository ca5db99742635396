// How a back end with wrong results shows to an operator: metrics, readiness, status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "service/admin/admin_server.h"
#include "tests/service/engine/testing.h"

namespace sparseagg {
namespace {

using ::testing::HasSubstr;

class VerificationsTest : public ::testing::Test {
 protected:
  VerificationsTest() { admin_->SetServing(*engine_, "127.0.0.1:1"); }

  void Tell(const absl::Status& outcome) {
    metrics_->OnVerification({.round = {}, .outcome = outcome, .seconds = 1});
  }
  httplib::Result Get(const std::string& path) {
    return httplib::Client("127.0.0.1", admin_->port()).Get(path);
  }

  const std::unique_ptr<Backend> backend_ = testing::MakeBackend("reference");
  const std::unique_ptr<UpdateStore> store_ = MakeMemoryStore();
  const std::unique_ptr<Engine> engine_ = MakeEngine({}, *backend_, *store_);
  const std::shared_ptr<Metrics> metrics_ = std::make_shared<Metrics>();
  const std::unique_ptr<AdminServer> admin_ =
      AdminServer::Start(
          {.listen = "127.0.0.1:0",
           .metrics = metrics_,
           .refusals = std::make_shared<Refusals>([] { return std::chrono::system_clock::now(); }),
           .log = Log(LogLevel::kError),
           .stop = [] {}})
          .value();
};

TEST_F(VerificationsTest, AServerWhoseResultsAreRightIsReady) {
  Tell(absl::OkStatus());
  Tell(absl::CancelledError(""));
  const auto ready = Get("/readyz");
  ASSERT_TRUE(ready);
  EXPECT_EQ(ready->status, 200);
  EXPECT_EQ(ready->body, "serving\n");
}

TEST_F(VerificationsTest, AWrongResultIsSaidEverywhere) {
  Tell(absl::OkStatus());
  Tell(MakeError(absl::StatusCode::kDataLoss, "RESULT_MISMATCH", "row 1"));
  const auto ready = Get("/readyz");
  ASSERT_TRUE(ready);
  EXPECT_EQ(ready->status, 503);
  EXPECT_THAT(ready->body, HasSubstr("the back end computed 1 wrong results"));
  EXPECT_THAT(Get("/metrics")->body,
              HasSubstr("sparseagg_round_verifications_total{outcome=\"mismatch\"} 1"));
  const auto status = nlohmann::json::parse(Get("/api/status")->body);
  EXPECT_EQ(status["verifications"]["mismatched"], 1);
  EXPECT_EQ(status["verifications"]["verified"], 1);
}

}  // namespace
}  // namespace sparseagg

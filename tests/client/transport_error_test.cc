#include "client/transport/transport_error.h"

#include <fstream>

#include "client/transport/call.h"
#include "client/transport/retry.h"
#include "nlohmann/json.hpp"
#include "tests/client/other_server.h"
#include "tests/client/proxy_environment.h"
#include "tests/client/support.h"

namespace sparseagg::client {
namespace {

using sparseagg::testing::HasError;
using sparseagg::testing::OtherServer;
using sparseagg::testing::ProxyEnvironment;

constexpr char kHost[] = "sparseagg.invalid";  // RFC 6761: a reserved name that does not resolve

grpc::StatusCode RpcCode(const std::string& name) {
  for (int code = 0; code <= 16; ++code) {
    if (absl::StatusCodeToString(static_cast<absl::StatusCode>(code)) == name) {
      return static_cast<grpc::StatusCode>(code);
    }
  }
  return grpc::StatusCode::DO_NOT_USE;
}

// The Python package reads the same table.
TEST(TransportErrorTest, SaysOfEachOfGrpcsWordsWhoAnsweredAndWhatToDo) {
  std::ifstream file(SPARSEAGG_SOURCE_DIR "/tests/vectors/transport_errors.json");
  const nlohmann::json rows = nlohmann::json::parse(file);
  ASSERT_GT(rows.size(), 40u);
  for (const nlohmann::json& row : rows) {
    const Route route{"agg.example:50061", "agg.example", row.value("proxy", "")};
    const std::string said = row["message"];
    const absl::Status status = ToStatus(grpc::Status(RpcCode(row["code"]), said), route);
    EXPECT_EQ(std::string(status.message()), row["error"].get<std::string>()) << said;
    EXPECT_EQ(absl::StatusCodeToString(status.code()), row["status"].get<std::string>()) << said;
    EXPECT_EQ(ErrorReason(status), row["reason"].get<std::string>()) << said;
    EXPECT_EQ(IsRetryable(status), row["retried"].get<bool>()) << said;
  }
}

// Calls that another server answers, with their number.
class OtherAnswersTest : public ::testing::Test {
 protected:
  absl::Status Call(const std::string& target) {
    ClientOptions options;
    options.retry = {3, 1, 1};
    options.on_retry = [this](const absl::Status&) { ++retries_; };
    return Client::Connect(target, options).value()->Info().status();
  }

  const ProxyEnvironment none_;
  int retries_ = 0;
};

TEST_F(OtherAnswersTest, ARefusalOfAReverseProxyIsItsOwnAndLasts) {
  for (const int status : {302, 400, 401, 403, 404, 413}) {
    const OtherServer server(OtherServer::Speaks::kHttp2, status);
    EXPECT_TRUE(HasError(Call(server.address()), "INTERMEDIARY_REFUSED",
                         "(a reverse proxy?) answers at " + server.address() +
                             " in place of the server, with status " + std::to_string(status)));
    EXPECT_EQ(server.answers(), 1) << status;
  }
}

TEST_F(OtherAnswersTest, AReverseProxyWithoutItsServerIsAskedAgain) {
  for (const int status : {502, 503, 504}) {
    const OtherServer server(OtherServer::Speaks::kHttp2, status);
    EXPECT_TRUE(HasError(Call(server.address()), "INTERMEDIARY_UNAVAILABLE",
                         "status " + std::to_string(status) + ": it does not reach the server"));
    EXPECT_EQ(server.answers(), 3) << status;
  }
}

TEST_F(OtherAnswersTest, AnHttp1ServerIsNoneOfGrpc) {
  const OtherServer server(OtherServer::Speaks::kHttp1, 400);
  EXPECT_TRUE(HasError(Call(server.address()), "NOT_GRPC",
                       "what answers at " + server.address() + " speaks HTTP/1 and not gRPC"));
  EXPECT_EQ(retries_, 0);
}

TEST_F(OtherAnswersTest, AnHttpProxyThatRefusesIsNamedAndAskedOnce) {
  for (const int status : {403, 407}) {
    const OtherServer proxy(OtherServer::Speaks::kHttp1, status);
    const ProxyEnvironment environment("http://user:secret@" + proxy.address() + "/");
    const absl::Status error = Call(kHost);
    EXPECT_TRUE(HasError(error, "PROXY_REFUSED", "the HTTP proxy " + proxy.address()));
    EXPECT_TRUE(HasError(error, "PROXY_REFUSED", "(status " + std::to_string(status)));
    EXPECT_TRUE(HasError(error, "PROXY_REFUSED", "put sparseagg.invalid into no_proxy"));
    EXPECT_EQ(error.message().find("secret"), std::string::npos);
    EXPECT_EQ(retries_, 0) << status;
  }
}

TEST_F(OtherAnswersTest, AnHttpProxyWithoutTheServerIsAskedAgain) {
  const OtherServer proxy(OtherServer::Speaks::kHttp1, 503);
  const ProxyEnvironment environment("http://" + proxy.address());
  EXPECT_TRUE(HasError(Call(kHost), "PROXY_UNAVAILABLE",
                       "cannot connect to sparseagg.invalid:50061 at the moment (status 503)"));
  EXPECT_EQ(retries_, 2);
}

TEST_F(OtherAnswersTest, AnHttpProxyThatIsNotThereIsNamed) {
  const ProxyEnvironment environment("http://127.0.0.1:1");
  EXPECT_TRUE(HasError(Call(kHost), "PROXY_UNAVAILABLE",
                       "cannot reach the HTTP proxy 127.0.0.1:1 between here and "
                       "sparseagg.invalid:50061: connection refused"));
}

}  // namespace
}  // namespace sparseagg::client

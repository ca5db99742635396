// The client without a server: how long it retries, and which addresses it tries.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "client/client.h"
#include "tests/client/name_server.h"
#include "tests/client/proxy_environment.h"
#include "tests/client/support.h"
#include "tests/e2e/server_process.h"
#include "tests/service/rpc/test_server.h"

namespace sparseagg::client {
namespace {

using sparseagg::testing::HasError;
using sparseagg::testing::NameServer;
using sparseagg::testing::ProxyEnvironment;
using sparseagg::testing::TestServer;

constexpr int kFormerAttemptsMax = 5;
const TensorSpec kEmb{"emb", ValueType::kF32, {10, 2}, 1};

class AbsentServerTest : public ::testing::Test {
 protected:
  // The options of a client that waits until there is a server.
  ClientOptions Eager(std::function<void(int failures)> on_failure) {
    ClientOptions options;
    options.call_timeout_ms = 60'000;
    options.retry.first_delay_ms = 1;
    options.retry.delay_ms_max = 50;
    options.on_retry = [this, on_failure = std::move(on_failure)](const absl::Status&) {
      on_failure(++failures_);
    };
    return options;
  }
  // Serves again without any round, after more failures than an earlier version tolerated.
  std::unique_ptr<Client> ComingBack() {
    const std::string address = server_->address();
    server_.reset();
    return Client::Connect(address, Eager([this, address](int failures) {
                             if (failures == 2 * kFormerAttemptsMax) {
                               server_.emplace(Limits(), address);
                             }
                           }))
        .value();
  }
  static std::string PortOf(const TestServer& server) {
    return server.address().substr(server.address().rfind(':'));
  }

  const ProxyEnvironment none_;
  std::optional<TestServer> server_{std::in_place};
  int failures_ = 0;
};

TEST_F(AbsentServerTest, CallsGoOnAsLongAsTheirTimeoutSays) {
  EXPECT_TRUE(ComingBack()->Info().ok());
  EXPECT_GE(failures_, 2 * kFormerAttemptsMax);
}

TEST_F(AbsentServerTest, AWaitWithoutALimitGoesOn) {
  EXPECT_TRUE(HasError(ComingBack()->Wait("rounds/r").status(), "ROUND_NOT_FOUND", "rounds/r"));
  EXPECT_GE(failures_, 2 * kFormerAttemptsMax);
}

TEST_F(AbsentServerTest, AWaitWithoutALimitOutlivesTheSilenceOfAServer) {
  testing::ServerProcess server;
  const auto other = Client::Connect(server.address()).value();
  ClientOptions options = Eager([&](int failures) {
    if (failures != 2) return;
    server.Signal(SIGCONT);
    EXPECT_TRUE(other->Seal("rounds/r").ok());
  });
  options.call_timeout_ms = 200;
  const auto client = Client::Connect(server.address(), options).value();
  ASSERT_TRUE(other->CreateRound({.id = "r", .tensors = {kEmb}}).ok());
  ASSERT_TRUE(client->Watch("rounds/r", [](const RoundInfo&) { return false; }).ok());  // connected
  server.Signal(SIGSTOP);
  const auto round = client->Wait("rounds/r");
  EXPECT_TRUE(round.ok()) << round.status();
  EXPECT_GE(failures_, 2);
}

TEST_F(AbsentServerTest, AWatchGoesOn) {
  const auto any = [](const RoundInfo&) { return true; };
  EXPECT_TRUE(HasError(ComingBack()->Watch("rounds/r", any), "ROUND_NOT_FOUND", "rounds/r"));
  EXPECT_GE(failures_, 2 * kFormerAttemptsMax);
}

TEST_F(AbsentServerTest, ANameThatMovesIsLookedUpAgain) {
  NameServer names("127.0.0.1");
  const std::string port = PortOf(*server_);
  const auto client =
      Client::Connect("dns://" + names.address() + "/agg.test" + port, Eager([](int) {})).value();
  ASSERT_TRUE(client->Info().ok());
  server_.reset();
  names.MoveTo("127.0.0.2");
  server_.emplace(Limits(), "127.0.0.2" + port);
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = client->Info().status();
  EXPECT_TRUE(status.ok()) << status;
  // gRPC's default is to resolve a name again after 30 s.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
}

// The exit code of a forked child; -1: it ended by a signal, such as the alarm if it hangs.
template <class Body>
int CodeOfChild(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(AbsentServerTest, AForkedChildHasAnErrorAtOnceAndItsParentGoesOn) {
  auto client = Client::Connect(server_->address()).value();
  const RoundInfo round = client->CreateRound({.tensors = {kEmb}}).value();
  const Tensor tensor = testing::MakeTensor<float>(kEmb, {7}, {1, 2});
  Update update;
  update.contributor = "a";
  update.tensors = {tensor.view()};
  EXPECT_EQ(CodeOfChild([&] {
              const auto forked = [](const absl::Status& status) {
                return ErrorReason(status) == "CLIENT_FORKED";
              };
              if (!forked(client->Info().status())) return 1;
              if (!forked(client->Submit(round.name, update).status())) return 2;
              if (!forked(client->SubmitMany(round.name, {&update, 1}).at(0).status())) return 3;
              if (!forked(client->Pull(round.name).status())) return 4;
              if (!forked(client->Wait(round.name).status())) return 5;
              const auto watch = [](const RoundInfo&) { return true; };
              if (!forked(client->Watch(round.name, watch))) return 6;
              if (!forked(client->Reduce({kEmb}, {&update, 1}).status())) return 7;
              if (!forked(Client::Connect(server_->address()).status())) return 8;
              client.reset();
              return 0;
            }),
            0);
  EXPECT_TRUE(client->Submit(round.name, update).ok());
}

}  // namespace
}  // namespace sparseagg::client

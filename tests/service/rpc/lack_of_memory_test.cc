// Where a call could no longer be answered, the process ends: gRPC would swallow an exception, and
// the call would never end.
#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <memory>
#include <new>
#include <string>

#include "service/rpc/grpc_server.h"
#include "tests/service/forwarding_engine.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_server.h"

namespace sparseagg::testing {
namespace {

class EngineWithoutMemory : public ForwardingEngine {
 public:
  using ForwardingEngine::ForwardingEngine;
  absl::StatusOr<RoundSnapshot> GetRound(std::string_view) override { throw std::bad_alloc(); }
  absl::StatusOr<WatchHandle> Watch(
      std::string_view, WatchScope,
      std::function<void(const std::optional<RoundSnapshot>&)>) override {
    throw std::bad_alloc();
  }
  absl::StatusOr<Receipt> Submit(UpdateHeader, const std::vector<EncodedTensor>&) override {
    throw std::bad_alloc();
  }
  absl::StatusOr<std::shared_ptr<const PublishedResult>> Result(std::string_view) override {
    throw std::bad_alloc();
  }
  absl::StatusOr<std::unique_ptr<StatelessReduction>> NewReduction(const RoundSpec&,
                                                                   std::string_view) override {
    throw std::bad_alloc();
  }
};

v1::SubmitUpdateRequest SomeUpdate() {
  return VectorUpdate("rounds/r", "c", VectorEntries("t", 9, {1}, {1}));
}

struct Call {
  std::string name;
  std::function<void(TestClient&)> make;
};

const Call kCalls[] = {
    {"GetRound", [](TestClient& client) { client.Get("rounds/r").IgnoreError(); }},
    {"SubmitUpdate", [](TestClient& client) { client.Submit(SomeUpdate()).IgnoreError(); }},
    {"GetAggregate", [](TestClient& client) { client.Aggregate("rounds/r").IgnoreError(); }},
    {"WatchRound",
     [](TestClient& client) {
       v1::WatchRoundRequest request;
       request.set_name("rounds/r");
       v1::Round round;
       const auto context = NewContext();
       client.stub().WatchRound(context.get(), request)->Read(&round);
     }},
    {"StreamUpdates",
     [](TestClient& client) {
       const auto context = NewContext();
       const auto stream = client.stub().StreamUpdates(context.get());
       v1::StreamUpdatesRequest message;
       *message.mutable_update() = SomeUpdate();
       stream->Write(message);
       v1::StreamUpdatesResponse answer;
       stream->Read(&answer);
     }},
    {"Reduce",
     [](TestClient& client) {
       v1::ReduceRequest message;
       *message.mutable_start()->mutable_spec() = VectorRound("t", 9);
       client.Reduce({message}).IgnoreError();
     }},
};

class LackOfMemoryDeathTest : public ::testing::TestWithParam<Call> {
 protected:
  // The death test runs in a process of its own, because this one has threads.
  LackOfMemoryDeathTest() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  static void CallTheServer() {
    TestServer server;
    EngineWithoutMemory engine(server.engine());
    const auto grpc = GrpcServer::Start("127.0.0.1:0", engine, {}).value();
    TestClient client(NewChannel("127.0.0.1:" + std::to_string(grpc->port())));
    GetParam().make(client);
  }
};

TEST_P(LackOfMemoryDeathTest, EndsTheProcess) {
  EXPECT_EXIT(CallTheServer(), ::testing::KilledBySignal(SIGABRT), "terminate");
}

INSTANTIATE_TEST_SUITE_P(Calls, LackOfMemoryDeathTest, ::testing::ValuesIn(kCalls),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sparseagg::testing

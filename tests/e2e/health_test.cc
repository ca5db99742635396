// Orchestrators and grpcurl use these services of any server. The bytes are those of grpc.health.v1
// and grpc.reflection.v1alpha, written out, so that no generated code of this project is involved.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "tests/e2e/server_process.h"
#include "tests/service/rpc/test_client.h"

namespace sparseagg {
namespace {

using ::testing::HasSubstr;

struct RawAnswer {
  grpc::Status status;
  std::string bytes;  // of the first response
};

// Sends one message to a method and returns the first response.
class RawCall {
 public:
  RawAnswer Send(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                 const std::string& request) {
    grpc::GenericStub stub(channel);
    const auto context = testing::NewContext();
    const auto call = stub.PrepareCall(context.get(), method, &queue_);
    call->StartCall(this);
    EXPECT_TRUE(Next());
    const grpc::Slice slice(request);
    call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), this);
    Next();
    RawAnswer answer;
    grpc::ByteBuffer response;
    call->Read(&response, this);
    if (Next()) {
      grpc::Slice whole;
      EXPECT_TRUE(response.DumpToSingleSlice(&whole).ok());
      answer.bytes.assign(reinterpret_cast<const char*>(whole.begin()), whole.size());
    }
    call->Finish(&answer.status, this);
    Next();
    return answer;
  }

  ~RawCall() {
    queue_.Shutdown();
    while (queue_.Next(&tag_, &ok_)) {
    }
  }

 private:
  bool Next() {
    EXPECT_TRUE(queue_.Next(&tag_, &ok_));
    return ok_;
  }

  grpc::CompletionQueue queue_;
  void* tag_ = nullptr;
  bool ok_ = false;
};

constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
const std::string kServing = "\x08\x01";  // status: SERVING

TEST(HealthTest, TheServerAsAWholeServes) {
  testing::ServerProcess server;
  const RawAnswer answer = RawCall().Send(testing::NewChannel(server.address()), kCheck, "");
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.bytes, kServing);
}

TEST(HealthTest, TheServiceServes) {
  testing::ServerProcess server;
  const std::string service = "sparseagg.v1.AggregationService";
  const std::string request = std::string("\x0a") + static_cast<char>(service.size()) + service;
  const RawAnswer answer = RawCall().Send(testing::NewChannel(server.address()), kCheck, request);
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.bytes, kServing);
}

TEST(HealthTest, AnUnknownServiceIsNotFound) {
  testing::ServerProcess server;
  const RawAnswer answer =
      RawCall().Send(testing::NewChannel(server.address()), kCheck, "\x0a\x03xyz");
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST(ReflectionTest, ListsTheService) {
  testing::ServerProcess server;
  const RawAnswer answer =
      RawCall().Send(testing::NewChannel(server.address()),
                     "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "\x3a\x01*");
  EXPECT_THAT(answer.bytes, HasSubstr("sparseagg.v1.AggregationService"));
}

TEST(ServerInfoTest, NamesBackendsOperatorsEncodingsAndLimits) {
  testing::ServerProcess server({"--backend", "reference", "--rounds-max", "77"});
  testing::TestClient client(testing::NewChannel(server.address()));
  v1::ServerInfo info;
  ASSERT_TRUE(client.stub().GetServerInfo(testing::NewContext().get(), {}, &info).ok());
  EXPECT_FALSE(info.version().empty());
  EXPECT_THAT(info.encodings(), ::testing::Contains("coo.raw"));
  EXPECT_THAT(info.operators(),
              ::testing::IsSupersetOf(
                  {"sum", "weighted_mean", "mean_of_contributors", "count", "min", "max"}));
  EXPECT_EQ(info.value_types_size(), 8);
  int selected = 0;
  for (const v1::BackendInfo& backend : info.backends()) {
    if (!backend.selected()) continue;
    ++selected;
    EXPECT_EQ(backend.name(), "reference");
  }
  EXPECT_EQ(selected, 1);
  uint64_t rounds_max = 0;
  for (const v1::Limit& limit : info.limits()) {
    if (limit.name() == "rounds-max") rounds_max = limit.value();
  }
  EXPECT_EQ(rounds_max, 77);
  EXPECT_EQ(info.default_durability(), v1::DURABILITY_MEMORY);
}

TEST(LogTest, BadTextOfACallerWritesNothingIntoIt) {
  testing::ServerProcess server;
  RawCall call;
  const RawAnswer answer =
      call.Send(testing::NewChannel(server.address()), "/sparseagg.v1.AggregationService/GetRound",
                std::string("\x0a\x03r/\xff", 5));
  EXPECT_FALSE(answer.status.ok());
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_THAT(server.log(), ::testing::Not(HasSubstr("UTF-8")));
}

TEST(StartTest, AnUnknownBackendIsAnErrorThatNamesTheKnownOnes) {
  testing::ServerProcess server({"--backend", "abacus"});
  EXPECT_EQ(server.Wait(), 1);
  EXPECT_THAT(server.log(), HasSubstr("UNKNOWN_BACKEND"));
  EXPECT_THAT(server.log(), HasSubstr("auto"));
  EXPECT_THAT(server.log(), HasSubstr("reference"));
}

TEST(StartTest, ABadSettingEndsWithTwo) {
  testing::ServerProcess server({"--rounds-max", "0"});
  EXPECT_EQ(server.Wait(), 2);
  EXPECT_THAT(server.log(), HasSubstr("flag --rounds-max"));
}

}  // namespace
}  // namespace sparseagg

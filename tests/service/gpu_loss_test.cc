// What an operator sees of a GPU that fails while it is used, docs/operations.md.
#include "service/gpu_loss.h"

#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "service/serve.h"
#include "service/telemetry/log.h"
#include "tests/service/rpc/test_server.h"

namespace sparseagg {
namespace {

// The status that grpc.health.v1 gives a service: 1 is SERVING, 2 is NOT_SERVING.
int HealthOf(const testing::TestServer& server, const std::string& service) {
  const std::string request = std::string("\x0a") + static_cast<char>(service.size()) + service;
  const grpc::Slice slice(request);
  const grpc::ByteBuffer message(&slice, 1);
  grpc::GenericStub stub(testing::NewChannel(server.address()));
  const auto context = testing::NewContext();
  grpc::ByteBuffer answer;
  grpc::Status status;
  absl::Notification done;
  stub.UnaryCall(context.get(), "/grpc.health.v1.Health/Check", {}, &message, &answer,
                 [&](const grpc::Status& its_status) {
                   status = its_status;
                   done.Notify();
                 });
  done.WaitForNotification();
  EXPECT_TRUE(status.ok()) << status.error_message();
  grpc::Slice bytes;
  if (!answer.DumpToSingleSlice(&bytes).ok() || bytes.size() != 2) return 0;
  return bytes.begin()[1];
}

TEST(GpuLossTest, TheBackEndIsNotServingAndTheServerIs) {
  testing::TestServer server;
  GpuLoss loss(Log(LogLevel::kError), 0);
  loss.Attach(&server.grpc());
  EXPECT_EQ(HealthOf(server, kBackendHealthName), 1);
  loss.Report(absl::UnavailableError("an uncorrectable error of the memory"));
  EXPECT_EQ(HealthOf(server, kBackendHealthName), 2);
  EXPECT_EQ(HealthOf(server, ""), 1);
}

TEST(GpuLossTest, AServerThatComesAfterTheLossTellsItToo) {
  GpuLoss loss(Log(LogLevel::kError), 0);
  loss.Report(absl::UnavailableError("lost while a data directory was taken up"));
  testing::TestServer server;
  loss.Attach(&server.grpc());
  EXPECT_EQ(HealthOf(server, kBackendHealthName), 2);
}

TEST(GpuLossDeathTest, TheProcessEndsWithItsCodeWhereThatIsWanted) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  GpuLoss loss(Log(LogLevel::kError), kServeGpuLost);
  EXPECT_EXIT(loss.Report(absl::UnavailableError("the bus is gone")), ::testing::ExitedWithCode(4),
              "a GPU is lost; the server ends.*the bus is gone");
}

}  // namespace
}  // namespace sparseagg

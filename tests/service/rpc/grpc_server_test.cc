#include "service/rpc/grpc_server.h"

#include <unistd.h>

#include <filesystem>

#include "base/status.h"
#include "tests/service/rpc/test_server.h"

namespace sparseagg::testing {
namespace {

class ListenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ListenTest, ASecondServerDoesNotTakeTheAddressOfTheFirst) {
  TestServer first({}, GetParam());
  const std::string address = first.address();
  const auto second = GrpcServer::Start(address, first.engine(), {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(ErrorReason(second.status()), "CANNOT_LISTEN");
  EXPECT_NE(second.status().message().find(address), absl::string_view::npos);

  TestClient client(NewChannel(address));
  EXPECT_TRUE(client.channel()->WaitForConnected(std::chrono::system_clock::now() +
                                                 std::chrono::seconds(30)))
      << "the first still answers";
}

INSTANTIATE_TEST_SUITE_P(
    Addresses, ListenTest,
    ::testing::Values("127.0.0.1:0", "unix:" + (std::filesystem::temp_directory_path() /
                                                ("sparseagg-listen-" + std::to_string(getpid())))
                                                   .string()));

// A device that fails while the server stops.
TEST(GrpcServerTest, ABackendMayBeLostAfterTheStop) {
  testing::TestServer server;
  server.grpc().Stop(std::chrono::system_clock::now());
  server.grpc().SetBackendLost();
}

}  // namespace
}  // namespace sparseagg::testing

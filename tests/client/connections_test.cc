#include "client/transport/connections.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/proxy_environment.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg::client {
namespace {

using ::testing::AllOf;
using ::testing::Ne;

// Channels without a call, which therefore do not connect.
class ConnectionsTest : public ::testing::Test {
 protected:
  Connections::Connect Counted() {
    return [this] {
      ++made_;
      return grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials());
    };
  }

  int made_ = 0;
};

TEST_F(ConnectionsTest, UploadsOneAfterTheOtherShareTheFirst) {
  Connections connections(Counted(), 4);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(connections.ForUpload().get(), &connections.first());
  EXPECT_EQ(made_, 1);
}

TEST_F(ConnectionsTest, UploadsSideBySideHaveTheirOwnUpToTheMost) {
  Connections connections(Counted(), 3);
  const auto a = connections.ForUpload();
  auto b = connections.ForUpload();
  const auto c = connections.ForUpload();
  EXPECT_EQ(made_, 3);
  EXPECT_EQ(a.get(), &connections.first());
  EXPECT_THAT(b.get(), Ne(a.get()));
  EXPECT_THAT(c.get(), AllOf(Ne(a.get()), Ne(b.get())));

  Connections::Stub* const without_upload = b.get();
  b.reset();
  EXPECT_EQ(connections.ForUpload().get(), without_upload);
  EXPECT_EQ(made_, 3);
}

TEST_F(ConnectionsTest, TheFewestUploadsDecide) {
  Connections connections(Counted(), 2);
  const auto a = connections.ForUpload();
  const auto b = connections.ForUpload();
  const auto c = connections.ForUpload();
  const auto d = connections.ForUpload();
  EXPECT_NE(c.get(), d.get()) << "two each";
}

TEST_F(ConnectionsTest, ThereIsAlwaysOne) {
  Connections connections(Counted(), 0);
  const auto a = connections.ForUpload();
  const auto b = connections.ForUpload();
  EXPECT_EQ(a.get(), b.get());
  EXPECT_EQ(made_, 1);
}

TEST_F(ConnectionsTest, WaitsLeaveRoomForOtherCallsOnEachConnection) {
  Connections connections(Counted(), 1);
  std::vector<Connections::Lease> waits;
  for (size_t i = 0; i < Connections::kWaitsMax; ++i) {
    waits.push_back(connections.ForWait());
    EXPECT_EQ(waits.back().get(), &connections.first());
  }
  for (size_t i = 0; i < Connections::kWaitsMax; ++i) waits.push_back(connections.ForWait());
  EXPECT_EQ(made_, 2);
  EXPECT_NE(waits.back().get(), &connections.first());
  waits[0].reset();
  EXPECT_EQ(connections.ForWait().get(), &connections.first()) << "there is room again";
  EXPECT_EQ(connections.ForUpload().get(), &connections.first()) << "others are not for uploads";
  EXPECT_EQ(made_, 2);
}

// A TCP socket of this machine that does not listen until Listen().
class Port {
 public:
  Port() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address_);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address_), size), 0);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address_), &size), 0);
  }
  ~Port() { close(socket_); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(ntohs(address_.sin_port)); }
  void Listen() const { EXPECT_EQ(listen(socket_, 8), 0); }
  // Returns the first bytes from the first peer that connects; empty after 20 seconds.
  std::string FirstBytes() const {
    if (!Readable(socket_)) return {};
    const int connection = accept(socket_, nullptr, nullptr);
    std::string bytes(200, '\0');
    const ssize_t n =
        Readable(connection) ? recv(connection, bytes.data(), bytes.size(), 0) : ssize_t{0};
    close(connection);
    bytes.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return bytes;
  }

 private:
  static bool Readable(int socket) {
    pollfd waiting{socket, POLLIN, 0};
    return poll(&waiting, 1, 20'000) == 1;
  }

  int socket_;
  sockaddr_in address_{};
};

class ProxyTest : public ::testing::Test {
 protected:
  const Port proxy_;
  const testing::ProxyEnvironment environment_{proxy_.url()};
};

TEST_F(ProxyTest, IsNotAskedForAServerOfThisMachine) {
  v1::AggregationService::Service nothing;  // every call: UNIMPLEMENTED
  const testing::TemporaryFolder folder;
  const std::string unix_socket = "unix:" + folder.path() + "/socket";
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.AddListeningPort(unix_socket, grpc::InsecureServerCredentials());
  builder.RegisterService(&nothing);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);

  const std::string at = ":" + std::to_string(port);
  for (const std::string& target : {"127.0.0.1" + at, "localhost" + at, "ipv4:127.0.0.1" + at,
                                    "dns:///localhost" + at, unix_socket}) {
    const auto channel =
        MakeChannel(RouteTo(*ParseAddress(target)), grpc::InsecureChannelCredentials());
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::ServerInfo info;
    const grpc::Status status =
        v1::AggregationService::NewStub(channel)->GetServerInfo(&context, {}, &info);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED)
        << target << ": " << status.error_message();
  }
}

TEST_F(ProxyTest, IsAskedForServersOfOtherMachines) {
  proxy_.Listen();
  const auto channel =
      MakeChannel(RouteTo(*ParseAddress("sparseagg.invalid")), grpc::InsecureChannelCredentials());
  // A channel makes progress in connecting only while a call waits on it.
  std::jthread connecting([&channel](const std::stop_token& over) {
    while (!over.stop_requested()) SleepWhileConnecting(*channel, 20);
  });
  EXPECT_THAT(proxy_.FirstBytes(), ::testing::StartsWith("CONNECT sparseagg.invalid:50061"));
}

}  // namespace
}  // namespace sparseagg::client

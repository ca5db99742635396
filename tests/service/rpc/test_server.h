// The real server in the test's process: reference back end with the times of
// tests/service/timed_backend.h, engine, store, tasks, gRPC on a free port or a unix socket.
#ifndef SPARSEAGG_TESTS_SERVICE_RPC_TEST_SERVER_H_
#define SPARSEAGG_TESTS_SERVICE_RPC_TEST_SERVER_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "service/engine/engine.h"
#include "service/rpc/grpc_server.h"
#include "service/store/store.h"
#include "service/tasks/tasks.h"
#include "sparse/backend.h"
#include "tests/service/rpc/test_client.h"

namespace sparseagg::testing {

class TestServer {
 public:
  // `encodings`: what GetServerInfo lists; empty: all that there are.
  explicit TestServer(Limits limits = {}, const std::string& listen = "127.0.0.1:0",
                      ServerSecurity security = {},
                      std::shared_ptr<CallObserver> observer = std::make_shared<CallObserver>(),
                      std::vector<std::string> encodings = {});
  ~TestServer();

  const std::string& address() const { return address_; }
  Engine& engine() { return *engine_; }
  GrpcServer& grpc() { return *grpc_; }
  Tasks& tasks() { return *tasks_; }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<UpdateStore> store_;
  std::shared_ptr<Tasks> tasks_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<GrpcServer> grpc_;
  std::string address_;
};

// A server with its default limits, and a client of it.
class RpcTest : public ::testing::Test {
 protected:
  TestServer server_;
  TestClient client_{NewChannel(server_.address())};
};

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SERVICE_RPC_TEST_SERVER_H_

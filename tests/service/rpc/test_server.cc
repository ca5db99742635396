#include "tests/service/rpc/test_server.h"

#include <utility>

#include "sparse/encoding.h"
#include "tests/service/timed_backend.h"

namespace sparseagg::testing {
namespace {

std::unique_ptr<Backend> MakeTestBackend() {
  for (const BackendFactory& factory : AllBackends()) {
    if (factory.name != "reference") continue;
    return std::make_unique<TimedBackend>(factory.make({}).value());
  }
  return nullptr;
}

}  // namespace

TestServer::TestServer(Limits limits, const std::string& listen, ServerSecurity security,
                       std::shared_ptr<CallObserver> observer, std::vector<std::string> encodings)
    : backend_(MakeTestBackend()) {
  store_ = MakeMemoryStore();
  EngineOptions options;
  options.limits = limits;
  engine_ = MakeEngine(std::move(options), *backend_, *store_);
  v1::ServerInfo info;
  info.set_version("test");
  if (encodings.empty()) {
    for (const Encoding& encoding : AllEncodings()) encodings.emplace_back(encoding.name);
  }
  for (const std::string& encoding : encodings) info.add_encodings(encoding);
  info.set_default_durability(v1::DURABILITY_MEMORY);
  grpc_ =
      GrpcServer::Start(listen, *engine_, std::move(info), std::move(security), std::move(observer))
          .value();
  address_ = grpc_->port() == 0 ? listen : "127.0.0.1:" + std::to_string(grpc_->port());
}

TestServer::~TestServer() = default;

}  // namespace sparseagg::testing

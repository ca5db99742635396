#include "tests/service/rpc/test_server.h"

#include <utility>

#include "base/status.h"
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
  tasks_ = std::make_shared<Tasks>(TaskOptions(), *store_, nullptr);
  EngineOptions options;
  options.limits = limits;
  options.observer = tasks_;
  engine_ = MakeEngine(std::move(options), *backend_, *store_);
  const auto find_round = [this](const std::string& name) -> absl::StatusOr<RoundOfTasks> {
    SPARSEAGG_ASSIGN_OR_RETURN(const RoundSnapshot round, engine_->GetRound(name));
    return RoundOfTasks{.state = round.state,
                        .created = round.create_time.time_since_epoch().count(),
                        .durability = round.spec.durability,
                        .goal_contributors = round.spec.policy.goal_contributors,
                        .has_leaves = round.spec.tree.is_root()};
  };
  EXPECT_TRUE(tasks_->Recover(find_round).ok());
  v1::ServerInfo info;
  info.set_version("test");
  if (encodings.empty()) {
    for (const Encoding& encoding : AllEncodings()) encodings.emplace_back(encoding.name);
  }
  for (const std::string& encoding : encodings) info.add_encodings(encoding);
  info.set_default_durability(v1::DURABILITY_MEMORY);
  grpc_ = GrpcServer::Start(listen, *engine_, std::move(info), std::move(security),
                            std::move(observer), tasks_.get())
              .value();
  address_ = grpc_->port() == 0 ? listen : "127.0.0.1:" + std::to_string(grpc_->port());
}

TestServer::~TestServer() = default;

}  // namespace sparseagg::testing

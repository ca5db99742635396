#include "bench/round_calls.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace sparseagg::bench {

void Check(const grpc::Status& status, const std::string& what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", what.c_str(), status.error_message().c_str());
  std::exit(1);
}

std::shared_ptr<grpc::Channel> Connect(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
  arguments.SetMaxReceiveMessageSize(-1);
  const auto channel =
      grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
  const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(10);
  if (!channel->WaitForConnected(deadline)) {
    Check(grpc::Status(grpc::StatusCode::UNAVAILABLE, target), "cannot connect");
  }
  return channel;
}

std::string CreateRound(Service::Stub& stub, v1::Durability durability, int64_t rows, int64_t width,
                        int sparse_dim) {
  v1::CreateRoundRequest request;
  request.mutable_spec()->set_durability(durability);
  v1::TensorSpec& tensor = *request.mutable_spec()->add_tensors();
  tensor.set_name("emb");
  tensor.set_value_type(v1::VALUE_TYPE_F32);
  tensor.add_dense_shape(rows);
  tensor.add_dense_shape(width);
  tensor.set_sparse_dim(sparse_dim);
  tensor.set_op("sum");
  grpc::ClientContext context;
  v1::Round round;
  Check(stub.CreateRound(&context, request, &round), "CreateRound");
  return round.name();
}

v1::Round Publish(Service::Stub& stub, const std::string& name, uint64_t contributors) {
  v1::SealRoundRequest seal;
  seal.set_name(name);
  v1::Round round;
  grpc::ClientContext seal_context;
  Check(stub.SealRound(&seal_context, seal, &round), "SealRound");
  while (round.state() == v1::ROUND_STATE_SEALED) {
    v1::WaitRoundRequest wait;
    wait.set_name(name);
    grpc::ClientContext wait_context;
    Check(stub.WaitRound(&wait_context, wait, &round), "WaitRound");
  }
  if (round.state() != v1::ROUND_STATE_PUBLISHED || round.contributors() != contributors) {
    Check(grpc::Status(grpc::StatusCode::DATA_LOSS, round.failure()),
          "not every update was counted");
  }
  return round;
}

void DeleteRound(Service::Stub& stub, const std::string& name) {
  v1::DeleteRoundRequest request;
  request.set_name(name);
  google::protobuf::Empty empty;
  grpc::ClientContext context;
  Check(stub.DeleteRound(&context, request, &empty), "DeleteRound");
}

}  // namespace sparseagg::bench

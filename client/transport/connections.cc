#include "client/transport/connections.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace sparseagg::client {
namespace {

// The largest message that this library accepts. A chunk has at most 4 MiB, and a round of 1024
// tensors with long names is well below this limit.
constexpr int kReceiveBytesMax = 32 << 20;

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(
    const Route& route, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kReceiveBytesMax);
  arguments.SetMaxSendMessageSize(-1);  // the server has its own limit
  // gRPC's default is to wait up to two minutes before it reconnects.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  // The time limit of one attempt to connect, which takes several round trips and computation with
  // TLS. An address without a machine does not answer at all.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5'000);
  // After a failure the name is resolved again, because it may have another address now. gRPC's
  // default is to wait 30 s in between.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 500);
  // A server that has stopped answering is noticed after 40 s. Servers allow a ping every 10 s.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  // Otherwise gRPC stops after two pings in a call without messages (WatchRound).
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Otherwise all channels of a process to one target would share a connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (route.proxy.empty()) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetUserAgentPrefix("sparseagg-cpp");
  return grpc::CreateCustomChannel(route.target, credentials, arguments);
}

void SleepWhileConnecting(grpc::Channel& channel, uint64_t ms) {
  const auto end = std::chrono::system_clock::now() + std::chrono::milliseconds(ms);
  while (channel.WaitForStateChange(channel.GetState(/*try_to_connect=*/true), end)) {
  }
}

Connections::Connection::Connection(std::shared_ptr<grpc::Channel> its_channel)
    : channel(std::move(its_channel)), stub(v1::AggregationService::NewStub(channel)) {}

Connections::Connections(Connect connect, size_t max)
    : connect_(std::move(connect)), max_(max), first_(connections_.emplace_back(connect_())) {}

Connections::Lease Connections::ForUpload() {
  const std::lock_guard lock(mutex_);
  auto least = std::min_element(connections_.begin(), connections_.end(),
                                [](const auto& a, const auto& b) { return a.uploads < b.uploads; });
  if (least->uploads > 0 && connections_.size() < max_) {
    least = connections_.emplace(connections_.end(), connect_());
  }
  ++least->uploads;
  return {least->stub.get(), [this](Stub* stub) { Return(stub); }};
}

Connections::Lease Connections::ForWait() {
  const std::lock_guard lock(mutex_);
  Connection* chosen = &first_;
  for (Connection& further : for_waits_) {
    if (chosen->waits < kWaitsMax) break;
    chosen = &further;
  }
  if (chosen->waits >= kWaitsMax) chosen = &for_waits_.emplace_back(connect_());
  ++chosen->waits;
  return {chosen->stub.get(), [this, chosen](Stub* /*stub*/) {
            const std::lock_guard ending(mutex_);
            --chosen->waits;
          }};
}

void Connections::Return(const Stub* stub) {
  const std::lock_guard lock(mutex_);
  const auto of_stub = [stub](const Connection& c) { return c.stub.get() == stub; };
  --std::find_if(connections_.begin(), connections_.end(), of_stub)->uploads;
}

}  // namespace sparseagg::client

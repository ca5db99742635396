// Connections of a client. The calls of a channel share one connection, whose bytes go through one
// thread at a time at either end: large uploads side by side are faster over several.
#ifndef SPARSEAGG_CLIENT_TRANSPORT_CONNECTIONS_H_
#define SPARSEAGG_CLIENT_TRANSPORT_CONNECTIONS_H_

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "client/transport/route.h"
#include "sparseagg/v1/aggregation.grpc.pb.h"

namespace sparseagg::client {

// A channel with a connection of its own, through a proxy only where the route has one: to a proxy
// "here" is somewhere else.
std::shared_ptr<grpc::Channel> MakeChannel(
    const Route& route, const std::shared_ptr<grpc::ChannelCredentials>& credentials);

// A channel gets on with connecting only while something waits on it: a thread that merely slept
// would find it as it left it.
void SleepWhileConnecting(grpc::Channel& channel, uint64_t ms);

// Thread-safe.
class Connections {
 public:
  using Stub = v1::AggregationService::StubInterface;
  using Connect = std::function<std::shared_ptr<grpc::Channel>()>;

  // `connect` makes a channel with a connection of its own: one now, and up to `max` in all.
  Connections(Connect connect, size_t max);

  // For short calls, which share it.
  Stub& first() { return *first_.stub; }
  grpc::Channel& first_channel() { return *first_.channel; }

  // A connection for an upload, as long as the pointer lives, which must not outlive this: one that
  // has no upload, a new one where there is none, or else one with as few as any.
  using Lease = std::unique_ptr<Stub, std::function<void(Stub*)>>;
  Lease ForUpload();

 private:
  struct Connection {
    explicit Connection(std::shared_ptr<grpc::Channel> its_channel);
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<Stub> stub;
    size_t uploads = 0;
  };

  void Return(const Stub* stub);

  const Connect connect_;
  const size_t max_;
  std::mutex mutex_;
  std::deque<Connection> connections_;  // they stay where they are
  Connection& first_;
};

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TRANSPORT_CONNECTIONS_H_

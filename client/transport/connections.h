// The connections of a client. All calls of a channel share one connection, whose bytes one thread
// at a time handles at either end; so concurrent large uploads are faster over several.
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

// Makes a channel with a connection of its own. It uses a proxy only if the route has one, because
// a proxy would resolve "localhost" to its own machine.
std::shared_ptr<grpc::Channel> MakeChannel(
    const Route& route, const std::shared_ptr<grpc::ChannelCredentials>& credentials);

// Sleeps for `ms` while `channel` connects. A channel makes progress only while a call waits on it,
// not while a thread merely sleeps.
void SleepWhileConnecting(grpc::Channel& channel, uint64_t ms);

// Thread-safe.
class Connections {
 public:
  using Stub = v1::AggregationService::StubInterface;
  using Connect = std::function<std::shared_ptr<grpc::Channel>()>;

  // `connect` makes a channel with a connection of its own. It is called once here, and up to `max`
  // times in all.
  Connections(Connect connect, size_t max);

  // The connection that all short calls share.
  Stub& first() { return *first_.stub; }
  grpc::Channel& first_channel() { return *first_.channel; }

  // Returns a connection for an upload: one without uploads, else a new one, else one with the
  // fewest uploads. The upload counts while the lease lives, which must not outlive this.
  using Lease = std::unique_ptr<Stub, std::function<void(Stub*)>>;
  Lease ForUpload();

  // The same for a call that waits for a round: the first connection, or a further one where
  // kWaitsMax such calls use it. A server lets a connection have 256 calls at a time, and gRPC
  // holds back more of them without an error: also the call that would end the round.
  static constexpr size_t kWaitsMax = 100;
  Lease ForWait();

 private:
  struct Connection {
    explicit Connection(std::shared_ptr<grpc::Channel> its_channel);
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<Stub> stub;
    size_t uploads = 0;
    size_t waits = 0;
  };

  void Return(const Stub* stub);

  const Connect connect_;
  const size_t max_;
  std::mutex mutex_;
  std::deque<Connection> connections_;  // deques, so that elements keep their addresses
  std::deque<Connection> for_waits_;    // beside first_
  Connection& first_;
};

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TRANSPORT_CONNECTIONS_H_

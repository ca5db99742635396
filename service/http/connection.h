// One connection of the HTTP edge: reads a request, makes its call, sends the answer, and again.
// Pipelined requests wait in the connection and are answered one after the other.
//
//   idle --first byte--> head --> body --> call --> answer --keep-alive--> idle
//    |                    |        |         |         |
//    +--------------------+--------+---------+---------+-- error, time, close --> end
//
// Each state has a time limit but `call`, which ends as the same call over gRPC does. The body of a
// request and an answer must keep to upload-rate-min, as a stream of gRPC must. A connection has no
// thread; its steps run one after the other on those of the edge. An idle one holds a parser, a
// timer and one small read buffer.
#ifndef SPARSEAGG_SERVICE_HTTP_CONNECTION_H_
#define SPARSEAGG_SERVICE_HTTP_CONNECTION_H_

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "service/auth/authenticator.h"
#include "service/engine/limits.h"
#include "service/http/connection_set.h"
#include "service/http/memory_budget.h"
#include "service/http/request_check.h"
#include "service/rpc/local/local_calls.h"

namespace sparseagg {

// What the connections of an edge share; it outlives them.
struct EdgeContext {
  EdgeContext(EdgeRules rules, const Limits& limits, uint64_t bytes_max,
              std::function<void(size_t open)> on_connections)
      : rules(std::move(rules)),
        limits(limits),
        memory(bytes_max),
        connections(std::move(on_connections)) {}

  const EdgeRules rules;
  const Limits limits;
  Authenticator* authenticator = nullptr;  // null: everyone may call
  std::unique_ptr<LocalCalls> calls;
  MemoryBudget memory;
  ConnectionSet connections;
  std::atomic<bool> draining = false;  // every answer is the last one of its connection
};

// Thread-safe.
class Connection {
 public:
  explicit Connection(EdgeContext& context) : context_(context) {}
  virtual ~Connection() { context_.connections.Remove(this); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  virtual void Start() = 0;
  // Closes the connection if no request is in progress; otherwise the answer closes it
  // (EdgeContext::draining).
  virtual void CloseIfIdle() = 0;
  // Closes the connection and cancels its call.
  virtual void Abort() = 0;

 protected:
  EdgeContext& context_;
};

// `peer`: LocalCall::peer. `tls`: null for a connection without.
std::shared_ptr<Connection> NewConnection(boost::asio::ip::tcp::socket socket, std::string peer,
                                          boost::asio::ssl::context* tls, EdgeContext& context);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_HTTP_CONNECTION_H_

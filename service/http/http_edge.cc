#include "service/http/http_edge.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/http/connection.h"
#include "service/http/tls_contexts.h"

namespace sparseagg {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// Transcoding a large message takes long, so there is more than one.
constexpr unsigned kThreadsMin = 2;
constexpr unsigned kThreadsMax = 4;
constexpr std::chrono::milliseconds kAcceptPause{100};  // when there are no file descriptors left

// What a connection beyond the limit gets, without waiting for its request.
constexpr char kFull[] =
    "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
    "connection: close\r\ncontent-length: 94\r\n\r\n"
    "{\"code\":\"unavailable\",\"message\":\"http-connections-max connections are open; try again "
    "later\"}\n";

// Leaves half of the file descriptors to gRPC and to the store.
uint64_t ConnectionsMax(uint64_t wanted) {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return wanted;
  return std::min<uint64_t>(wanted, files.rlim_cur / 2);
}

// As gRPC writes the address of a peer.
std::string PeerName(const tcp::socket& socket) {
  error_code error;
  const tcp::endpoint peer = socket.remote_endpoint(error);
  if (error) return "unknown";
  const std::string address = peer.address().to_string();
  return peer.address().is_v6() ? absl::StrCat("ipv6:[", address, "]:", peer.port())
                                : absl::StrCat("ipv4:", address, ":", peer.port());
}

class HttpEdgeImpl : public HttpEdge {
 public:
  HttpEdgeImpl(HttpEdgeOptions options, std::unique_ptr<LocalCalls> calls)
      : listen_(options.listen),
        connections_max_(ConnectionsMax(options.connections_max)),
        context_({.methods = MethodTable(),
                  .origins = Origins(options.origins),
                  .message_bytes_max = options.limits.message_bytes_max},
                 options.limits, options.bytes_max, std::move(options.on_connections)),
        acceptor_(asio::make_strand(io_)),
        pause_(acceptor_.get_executor()) {
    context_.authenticator = options.authenticator;
    context_.calls = std::move(calls);
    if (options.tls.enabled()) tls_.emplace(options.tls);
  }
  ~HttpEdgeImpl() override { Stop(std::chrono::system_clock::now()); }

  absl::Status Listen();
  int port() const override { return port_; }
  void Stop(std::chrono::system_clock::time_point deadline) override;

 private:
  absl::Status CannotListen(const std::string& why) const;
  bool Bind(const tcp::endpoint& endpoint, error_code& error);
  void Accept();
  void OnAccept(const error_code& error, tcp::socket socket);
  void RefuseConnection(tcp::socket socket);

  const std::string listen_;
  const uint64_t connections_max_;
  EdgeContext context_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io_);
  // Used on the acceptor's strand, once it listens.
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::optional<TlsContexts> tls_;
  int port_ = 0;
  std::vector<std::thread> threads_;
};

absl::Status HttpEdgeImpl::CannotListen(const std::string& why) const {
  return MakeError(absl::StatusCode::kUnavailable, "CANNOT_LISTEN",
                   absl::StrCat("cannot listen on ", listen_, ": ", why,
                                "; choose another address with --http-listen"));
}

bool HttpEdgeImpl::Bind(const tcp::endpoint& endpoint, error_code& error) {
  error_code ignored;
  acceptor_.close(ignored);
  acceptor_.open(endpoint.protocol(), error);
  if (error) return false;
  if (endpoint.address().is_v6()) acceptor_.set_option(asio::ip::v6_only(false), ignored);
  // Not SO_REUSEPORT, with which a second process could share the port.
  acceptor_.set_option(tcp::acceptor::reuse_address(true), ignored);
  acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
  return !error;
}

absl::Status HttpEdgeImpl::Listen() {
  if (tls_.has_value()) SPARSEAGG_RETURN_IF_ERROR(tls_->Current().status());
  const size_t colon = listen_.rfind(':');
  std::string host = listen_.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  error_code error;
  const auto endpoints =
      tcp::resolver(io_).resolve(host, listen_.substr(colon + 1), tcp::resolver::passive, error);
  if (error) return CannotListen(error.message());
  const bool bound = std::any_of(endpoints.begin(), endpoints.end(),
                                 [&](const auto& entry) { return Bind(entry.endpoint(), error); });
  if (!bound) return CannotListen(error.message());
  port_ = acceptor_.local_endpoint(error).port();
  asio::post(acceptor_.get_executor(), [this] { Accept(); });
  const unsigned threads =
      std::clamp(std::thread::hardware_concurrency(), kThreadsMin, kThreadsMax);
  for (unsigned i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { io_.run(); });
    pthread_setname_np(threads_.back().native_handle(), "http");
  }
  return absl::OkStatus();
}

void HttpEdgeImpl::Accept() {
  acceptor_.async_accept(
      asio::make_strand(io_),
      [this](const error_code& error, tcp::socket socket) { OnAccept(error, std::move(socket)); });
}

void HttpEdgeImpl::OnAccept(const error_code& error, tcp::socket socket) {
  if (!acceptor_.is_open()) return;
  if (error) {
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([this](const error_code& stopped) {
      if (!stopped && acceptor_.is_open()) Accept();
    });
    return;
  }
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  if (context_.connections.size() >= connections_max_) {
    RefuseConnection(std::move(socket));
  } else {
    std::shared_ptr<asio::ssl::context> tls;
    if (tls_.has_value()) tls = tls_->Current().value();
    std::string peer = PeerName(socket);
    NewConnection(std::move(socket), std::move(peer), tls.get(), context_)->Start();
  }
  Accept();
}

// With TLS, the handshake would cost more than the connection.
void HttpEdgeImpl::RefuseConnection(tcp::socket socket) {
  error_code ignored;
  socket.non_blocking(true, ignored);
  if (!tls_.has_value()) socket.write_some(asio::buffer(kFull, sizeof(kFull) - 1), ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
}

void HttpEdgeImpl::Stop(std::chrono::system_clock::time_point deadline) {
  if (threads_.empty()) return;
  context_.draining = true;
  asio::post(acceptor_.get_executor(), [this] {
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
  });
  for (const auto& connection : context_.connections.All()) connection->CloseIfIdle();
  if (!context_.connections.WaitUntilEmpty(deadline)) {
    for (const auto& connection : context_.connections.All()) connection->Abort();
    context_.connections.WaitUntilEmpty(std::chrono::system_clock::time_point::max());
  }
  context_.calls.reset();
  work_.reset();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpEdge>> HttpEdge::Start(HttpEdgeOptions options,
                                                          std::unique_ptr<LocalCalls> calls) {
  auto edge = std::make_unique<HttpEdgeImpl>(std::move(options), std::move(calls));
  SPARSEAGG_RETURN_IF_ERROR(edge->Listen());
  return edge;
}

}  // namespace sparseagg

#include "tests/client/cutting_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "tests/client/loopback.h"

namespace sparseagg::testing {
namespace {

constexpr uint64_t kUnlimited = UINT64_MAX;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Copies up to `limit` bytes until one side ends. Then breaks both directions.
void Pump(int from, int to, uint64_t limit) {
  char buffer[16384];
  while (limit > 0) {
    const ssize_t got = recv(from, buffer, std::min<uint64_t>(sizeof(buffer), limit), 0);
    if (got <= 0) break;
    limit -= static_cast<uint64_t>(got);
    if (send(to, buffer, static_cast<size_t>(got), MSG_NOSIGNAL) != got) break;
  }
  shutdown(from, SHUT_RDWR);
  shutdown(to, SHUT_RDWR);
}

}  // namespace

CuttingProxy::CuttingProxy(int port, uint64_t bytes_max)
    : port_(port),
      bytes_max_(bytes_max),
      listener_(socket(AF_INET, SOCK_STREAM, 0)),
      address_(ListenOnLoopback(listener_)) {
  acceptor_ = std::thread([this] { Accept(); });
}

CuttingProxy::~CuttingProxy() {
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  close(listener_);
  for (const int socket : sockets_) shutdown(socket, SHUT_RDWR);
  for (std::thread& thread : threads_) thread.join();
  for (const int socket : sockets_) close(socket);
}

void CuttingProxy::Accept() {
  for (;;) {
    const int client = accept(listener_, nullptr, nullptr);
    if (client < 0) return;
    ++connections_;
    const int server = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = Loopback(port_);
    if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      shutdown(client, SHUT_RDWR);  // as the server would
    }
    const std::lock_guard lock(mutex_);
    sockets_.push_back(client);
    sockets_.push_back(server);
    threads_.emplace_back([=, this] { Pump(client, server, bytes_max_); });
    threads_.emplace_back([=] { Pump(server, client, kUnlimited); });
  }
}

}  // namespace sparseagg::testing

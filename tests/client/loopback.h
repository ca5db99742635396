// Finds a free port of this machine, for the tests' own servers.
#ifndef SPARSEAGG_TESTS_CLIENT_LOOPBACK_H_
#define SPARSEAGG_TESTS_CLIENT_LOOPBACK_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace sparseagg::testing {

// Binds `socket` to a free port of 127.0.0.1: HOST:PORT. Throws std::system_error.
inline std::string BindToLoopback(int socket) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (bind(socket, raw, size) != 0 || getsockname(socket, raw, &size) != 0) {
    throw std::system_error(errno, std::generic_category(), "bind to 127.0.0.1");
  }
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

// The same, and listens.
inline std::string ListenOnLoopback(int socket) {
  std::string address = BindToLoopback(socket);
  if (listen(socket, 16) != 0) {
    throw std::system_error(errno, std::generic_category(), "listen on " + address);
  }
  return address;
}

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_CLIENT_LOOPBACK_H_

// The address of a server: what a caller may write, and the gRPC target that it becomes. The Python
// package (_address.py) has the same rules and messages; tests/vectors/addresses.json holds both to
// them.
//
//   HOST   HOST:PORT   [IPV6]:PORT   IPV6   http://HOST:PORT   https://HOST:PORT   dns:///HOST:PORT
//   ipv4:IPV4:PORT,...   ipv6:[IPV6]:PORT,...   unix:PATH   unix-abstract:NAME
#ifndef SPARSEAGG_CLIENT_TRANSPORT_ADDRESS_H_
#define SPARSEAGG_CLIENT_TRANSPORT_ADDRESS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace sparseagg::client {

inline constexpr uint16_t kDefaultPort = 50061;

struct Address {
  std::string target;              // for gRPC, with a port; also how messages name the server
  std::optional<bool> tls;         // what http:// (false) and https:// (true) say
  std::vector<std::string> hosts;  // names and IP addresses without brackets; none of a Unix socket
  bool is_socket = false;          // a Unix socket
  bool by_authority = false;       // a DNS server of the caller's choice is asked: dns://AUTHORITY/
};

// INVALID_ARGUMENT (INVALID_TARGET) says what is wrong with `text`. An address without a port gets
// `default_port`.
absl::StatusOr<Address> ParseAddress(std::string_view text, uint16_t default_port = kDefaultPort);

// Whether it is on this machine whatever the network looks like: loopback, localhost, Unix sockets.
bool IsLocal(const Address& address);

// Whether no proxy is asked for it: this machine by any of its names and addresses.
bool IsDirect(const Address& address);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TRANSPORT_ADDRESS_H_

// Parses the address of a server into a gRPC target. The Python package (_address.py) has the same
// rules and messages; tests/vectors/addresses.json checks both.
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
  std::string target;       // for gRPC, with a port; messages name the server by it
  std::optional<bool> tls;  // true for https://, false for http://
  std::vector<std::string>
      hosts;                  // names and IP addresses without brackets; empty for a Unix socket
  bool is_socket = false;     // a Unix socket
  bool by_authority = false;  // the caller chose the DNS server: dns://AUTHORITY/
};

// INVALID_ARGUMENT (INVALID_TARGET), which says what is wrong with `text`. An address without a
// port gets `default_port`.
absl::StatusOr<Address> ParseAddress(std::string_view text, uint16_t default_port = kDefaultPort);

// Whether the address is on this machine in every network: loopback, localhost, Unix sockets.
bool IsLocal(const Address& address);

// Whether it is reached without a proxy: this machine, by any of its names and addresses.
bool IsDirect(const Address& address);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TRANSPORT_ADDRESS_H_

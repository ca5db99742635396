// The way to a server: the proxy in between, if one is configured, and the names that messages use.
#ifndef SPARSEAGG_CLIENT_TRANSPORT_ROUTE_H_
#define SPARSEAGG_CLIENT_TRANSPORT_ROUTE_H_

#include <string>

#include "client/transport/address.h"

namespace sparseagg::client {

struct Route {
  std::string target;  // Address::target
  std::string host;    // in the form of an entry of no_proxy
  std::string proxy;   // HOST:PORT of the HTTP proxy in between; empty: none
  std::string
      probe_address;  // HOST:PORT that can be probed for TLS; empty: none, or TLS is used already
};

// Finds the proxy in the variables that gRPC reads: the first that is set of grpc_proxy,
// https_proxy and http_proxy, and no_grpc_proxy or no_proxy. This machine is always reached
// directly.
Route RouteTo(const Address& address, bool by_tls = false);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TRANSPORT_ROUTE_H_

// How calls get to their server: what stands in between, as far as it is known here, and what
// messages say of it.
#ifndef SPARSEAGG_CLIENT_TRANSPORT_ROUTE_H_
#define SPARSEAGG_CLIENT_TRANSPORT_ROUTE_H_

#include <string>

#include "client/transport/address.h"

namespace sparseagg::client {

struct Route {
  std::string target;  // Address::target
  std::string host;    // as an entry of no_proxy
  std::string proxy;   // HOST:PORT of the HTTP proxy in between; empty: none
  std::string place;  // HOST:PORT that can be asked whether it wants TLS; empty: none can, or it is
                      // called by TLS
};

// By the variables that gRPC reads: grpc_proxy, https_proxy or http_proxy, the first that is set,
// and no_grpc_proxy or no_proxy. This machine is reached directly, whatever they say.
Route RouteTo(const Address& address, bool by_tls = false);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TRANSPORT_ROUTE_H_

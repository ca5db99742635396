// Finds out whether a server that closes every plaintext connection expects TLS. gRPC does not
// report that; the first bytes of a handshake show it.
#ifndef SPARSEAGG_CLIENT_TRANSPORT_TLS_PROBE_H_
#define SPARSEAGG_CLIENT_TRANSPORT_TLS_PROBE_H_

#include <string>

namespace sparseagg::client {

// Whether `address`, a HOST:PORT, answers a TLS ClientHello with TLS, even with an alert. Sends
// nothing else. Takes a few seconds at most if there is no answer.
bool SpeaksTls(const std::string& address);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TRANSPORT_TLS_PROBE_H_

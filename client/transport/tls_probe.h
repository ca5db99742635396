// Whether a server that closes each connection in plaintext without a word expects TLS: gRPC cannot
// tell, the first bytes of a handshake can.
#ifndef SPARSEAGG_CLIENT_TRANSPORT_TLS_PROBE_H_
#define SPARSEAGG_CLIENT_TRANSPORT_TLS_PROBE_H_

#include <string>

namespace sparseagg::client {

// Whether `place`, a HOST:PORT, answers the beginning of a handshake as TLS does, be it that it
// refuses. Nothing else is sent. Takes seconds at most, where nobody answers.
bool SpeaksTls(const std::string& place);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TRANSPORT_TLS_PROBE_H_

// Checks of HOST:PORT. gRPC accepts nearly any text and gives no reason when it fails.
#ifndef SPARSEAGG_BASE_HOST_PORT_H_
#define SPARSEAGG_BASE_HOST_PORT_H_

#include <string>
#include <string_view>

namespace sparseagg {

// Returns what is wrong with a HOST:PORT to listen on, in which an IPv6 address needs brackets;
// empty if it is valid. Does not check that the host exists.
std::string HostAndPortError(std::string_view address);

// Returns what is wrong with a HOST:PORT to connect to: the port is not 0, and the host has only
// characters that names and addresses have, so that no scheme or path passes for one.
std::string DialAddressError(std::string_view address);

}  // namespace sparseagg

#endif  // SPARSEAGG_BASE_HOST_PORT_H_

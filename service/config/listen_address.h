// Checks of the addresses in the configuration. gRPC accepts nearly any text and gives no reason
// when it fails.
#ifndef SPARSEAGG_SERVICE_CONFIG_LISTEN_ADDRESS_H_
#define SPARSEAGG_SERVICE_CONFIG_LISTEN_ADDRESS_H_

#include <string>
#include <string_view>

namespace sparseagg {

// Returns what is wrong with a HOST:PORT, in which an IPv6 address needs brackets; empty if it is
// valid. Does not check that the host exists.
std::string HostAndPortError(std::string_view address);

// The same; also accepts unix:PATH and unix-abstract:NAME.
std::string ListenAddressError(std::string_view address);

// Returns what is wrong with a list of origins of web pages ("https://app.example.org,
// http://localhost:8000", "*" or empty), in the form in which browsers send them; empty if it is
// valid.
std::string OriginsError(std::string_view list);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_CONFIG_LISTEN_ADDRESS_H_

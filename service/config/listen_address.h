// Checks of the addresses in the configuration. gRPC accepts nearly any text and gives no reason
// when it fails.
#ifndef SPARSEAGG_SERVICE_CONFIG_LISTEN_ADDRESS_H_
#define SPARSEAGG_SERVICE_CONFIG_LISTEN_ADDRESS_H_

#include <string>
#include <string_view>

namespace sparseagg {

// Returns the configured address with the port that was bound: "127.0.0.1:0" has none.
std::string BoundAddress(const std::string& listen, int port);

// Returns what is wrong with a HOST:PORT (base/host_port.h), unix:PATH or unix-abstract:NAME; empty
// if it is valid.
std::string ListenAddressError(std::string_view address);

// Returns what is wrong with a list of leaves ("a.example.org:50061,two=b:50061" or empty): an
// address, or an id and an address; empty if it is valid.
std::string LeavesError(std::string_view list);

// Returns what is wrong with a list of origins of web pages ("https://app.example.org,
// http://localhost:8000", "*" or empty), in the form in which browsers send them; empty if it is
// valid.
std::string OriginsError(std::string_view list);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_CONFIG_LISTEN_ADDRESS_H_

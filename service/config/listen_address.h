// Addresses to listen on as the configuration has them. gRPC takes nearly any text and says of none
// what is wrong with it.
#ifndef SPARSEAGG_SERVICE_CONFIG_LISTEN_ADDRESS_H_
#define SPARSEAGG_SERVICE_CONFIG_LISTEN_ADDRESS_H_

#include <string>
#include <string_view>

namespace sparseagg {

// What is wrong with HOST:PORT, an IPv6 address in brackets; empty when nothing is. Whether there
// is such a host is not looked at.
std::string WhyNoHostAndPort(std::string_view address);

// The same where unix:PATH and unix-abstract:NAME will do, too.
std::string WhyNoListenAddress(std::string_view address);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_CONFIG_LISTEN_ADDRESS_H_

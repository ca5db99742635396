// The listening address of the admin port, and the checks of a request's Host header.
#ifndef SPARSEAGG_SERVICE_ADMIN_ADMIN_ADDRESS_H_
#define SPARSEAGG_SERVICE_ADMIN_ADMIN_ADDRESS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sparseagg {

struct AdminAddress {
  std::string host;  // without brackets
  int port = 0;
  bool is_loopback = false;
};

// "127.0.0.1:50062", "[::1]:0", "localhost:50062". INVALID_ARGUMENT (INVALID_CONFIG).
absl::StatusOr<AdminAddress> ParseAdminAddress(std::string_view listen);

// Returns whether a numeric address or "localhost" is this machine's own.
bool IsLoopback(std::string_view host);

// Whether the Host header of a request ("127.0.0.1:50062") names loopback.
bool NamesLoopback(std::string_view host_header);

// Whether it names loopback, a numeric address or the host that the port listens on. Any other name
// could be pointed at this machine by a foreign name server (DNS rebinding).
bool IsOwnHost(std::string_view host_header, const AdminAddress& address);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ADMIN_ADMIN_ADDRESS_H_

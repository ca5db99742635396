#include "service/http/hang_up.h"

#include <poll.h>

namespace sparseagg {

bool HasHungUp(int socket) {
  // Errors, a reset among them, are reported without being asked for.
  pollfd state = {.fd = socket, .events = POLLRDHUP, .revents = 0};
  return poll(&state, 1, /*timeout=*/0) > 0;
}

}  // namespace sparseagg

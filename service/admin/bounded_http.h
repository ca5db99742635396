// httplib's server, with bounds that it has not: what a connection may send, and how long it may
// take. By itself it reads headers of any length, and as slowly as they come.
#ifndef SPARSEAGG_SERVICE_ADMIN_BOUNDED_HTTP_H_
#define SPARSEAGG_SERVICE_ADMIN_BOUNDED_HTTP_H_

#include <httplib.h>

#include <chrono>
#include <cstddef>

namespace sparseagg {

// One request a connection; httplib's own timeouts and keep-alive have no effect.
class BoundedHttpServer : public httplib::Server {
 public:
  static constexpr size_t kRequestBytesMax = 32 << 10;  // line, headers and body
  // For the request to come as a whole, and again for the answer to be taken.
  static constexpr std::chrono::seconds kPatience{5};

 private:
  bool process_and_close_socket(socket_t socket) override;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ADMIN_BOUNDED_HTTP_H_

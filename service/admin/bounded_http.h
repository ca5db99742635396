// httplib's server with bounds on the size of a request and on the time of a connection. httplib
// itself reads headers of any length, however slowly they arrive.
#ifndef SPARSEAGG_SERVICE_ADMIN_BOUNDED_HTTP_H_
#define SPARSEAGG_SERVICE_ADMIN_BOUNDED_HTTP_H_

#include <httplib.h>

#include <chrono>
#include <cstddef>

namespace sparseagg {

// Serves one request per connection; httplib's own timeouts and keep-alive have no effect.
class BoundedHttpServer : public httplib::Server {
 public:
  static constexpr size_t kRequestBytesMax = 32 << 10;  // request line, headers and body
  // The limit for receiving the whole request, and again for sending the answer.
  static constexpr std::chrono::seconds kTimeout{5};

 private:
  bool process_and_close_socket(socket_t socket) override;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ADMIN_BOUNDED_HTTP_H_

// Whether the client of a call has gone.
#ifndef SPARSEAGG_SERVICE_HTTP_HANG_UP_H_
#define SPARSEAGG_SERVICE_HTTP_HANG_UP_H_

namespace sparseagg {

// Returns whether the peer has closed or reset the connection of `socket`, a descriptor. Bytes that
// it sent before and that nobody has read, as the next request or the end of TLS, do not hide it.
bool HasHungUp(int socket);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_HTTP_HANG_UP_H_

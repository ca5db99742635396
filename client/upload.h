// Sends one large update in chunks over StreamUpdates.
//
//   client:  Begin                      Chunk, Chunk, ...
//   server:         Progress(offset)                        Receipt or Error
//
// After a broken stream a new attempt begins the same update again, and the server answers with the
// offset from which it needs the bytes.
#ifndef SPARSEAGG_CLIENT_UPLOAD_H_
#define SPARSEAGG_CLIENT_UPLOAD_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/transport/call.h"
#include "client/wire/encoded_update.h"
#include "sparseagg/v1/aggregation.grpc.pb.h"

namespace sparseagg::client {

struct UploadAttempt {
  absl::StatusOr<Receipt> receipt;
  uint64_t resumed_at = 0;  // the server's offset at the start of the attempt
};

// One attempt. Synchronous; reads the server's answers on a thread of its own, so that a refusal
// stops the upload early.
UploadAttempt UploadOnce(v1::AggregationService::StubInterface& stub, const Caller& caller,
                         const EncodedUpdate& update, uint64_t timeout_ms,
                         const Progress& progress);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_UPLOAD_H_

// UploadChunk: the steps of a chunked update as unary calls, for clients without streams. Nothing
// is kept between two calls but what the engine keeps of every upload.
#ifndef SPARSEAGG_SERVICE_RPC_STREAM_UPLOAD_CHUNK_H_
#define SPARSEAGG_SERVICE_RPC_STREAM_UPLOAD_CHUNK_H_

#include <memory>

#include "absl/status/statusor.h"
#include "service/engine/engine.h"
#include "service/rpc/call_authoriser.h"
#include "service/rpc/wire/received_update.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// Begins or resumes the update and appends its chunk, unless all bytes of the chunk are there
// already. May wait for the disk. Errors are those of Engine::BeginUpload(), Upload::Append() and
// AuthorisedCall::CheckBody(), and INVALID_ARGUMENT (UPDATE_ID_MISMATCH).
absl::StatusOr<std::shared_ptr<Upload>> AddChunk(const AuthorisedCall& call,
                                                 const ReceivedUploadChunk& received);

inline bool IsComplete(const Upload& upload) {
  return upload.committed_offset() == upload.total_bytes();
}

// Returns how far the upload has come. Counts the update if it is complete, and returns its
// receipt.
absl::StatusOr<v1::UploadChunkResponse> AnswerToChunk(Upload& upload);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_STREAM_UPLOAD_CHUNK_H_

#include "service/rpc/stream/upload_chunk.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/partial/partial_body.h"
#include "service/rpc/wire/round_proto.h"
#include "service/rpc/wire/update_proto.h"
#include "sparse/byte_chain.h"

namespace sparseagg {
namespace {

absl::Status CheckUpdateId(const std::string& of_chunk, const std::string& of_begin) {
  if (of_chunk.empty() || of_chunk == of_begin) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, "UPDATE_ID_MISMATCH",
                   absl::StrCat("the chunk is of another update than begin.header.update_id = \"",
                                of_begin, "\"; leave its update_id empty"));
}

// Whether the chunk has come before, and only its answer was lost.
bool IsHeld(const Upload& upload, const ReceivedChunk& chunk) {
  const uint64_t bytes = TotalBytes(chunk.data);
  const uint64_t held = upload.committed_offset();
  return bytes <= held && chunk.offset <= held - bytes;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Upload>> AddChunk(const AuthorisedCall& call,
                                                 const ReceivedUploadChunk& received) {
  const UpdateHeader header = FromProto(received.begin.header());
  const ReceivedChunk* const chunk = received.chunk.has_value() ? &*received.chunk : nullptr;
  if (chunk != nullptr) {
    SPARSEAGG_RETURN_IF_ERROR(CheckUpdateId(chunk->update_id, header.update_id));
  }
  SPARSEAGG_ASSIGN_OR_RETURN(std::vector<EncodedHeader> tensors, HeadersOf(received.begin));
  SPARSEAGG_RETURN_IF_ERROR(call.CheckBody(IsPartialBody(tensors)));
  SPARSEAGG_ASSIGN_OR_RETURN(std::shared_ptr<Upload> upload,
                             call.engine->BeginUpload(header, std::move(tensors)));
  if (chunk != nullptr && !IsHeld(*upload, *chunk)) {
    SPARSEAGG_RETURN_IF_ERROR(upload->Append(chunk->offset, ByteChain(chunk->data), chunk->crc32c));
  }
  return upload;
}

absl::StatusOr<v1::UploadChunkResponse> AnswerToChunk(Upload& upload) {
  v1::UploadChunkResponse response;
  if (!IsComplete(upload)) {
    response.mutable_progress()->set_committed_offset(upload.committed_offset());
    return response;
  }
  SPARSEAGG_ASSIGN_OR_RETURN(Receipt receipt, upload.Finish());
  *response.mutable_receipt() = ToProto(std::move(receipt));
  return response;
}

}  // namespace sparseagg

#include "service/rpc/stream/stream_uploads.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {
absl::Status StreamUploads::CheckId(const UpdateHeader& header) const {
  const auto it = uploads_.find(header.update_id);
  if (it == uploads_.end()) return absl::OkStatus();
  if (it->second.round == header.round && it->second.contributor == header.contributor)
    return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kAlreadyExists, "UPDATE_ID_IN_USE",
      absl::StrCat("update_id \"", header.update_id,
                   "\" is in use on this stream for contributor \"", it->second.contributor,
                   "\"; choose an update_id that is unique within the stream"));
}

void StreamUploads::Insert(const UpdateHeader& header, std::shared_ptr<Upload> upload) {
  uploads_[header.update_id] = Entry{header.round, header.contributor, std::move(upload)};
}

absl::StatusOr<StreamUploads::Complete> StreamUploads::Append(const ReceivedChunk& chunk) {
  const auto it = uploads_.find(chunk.update_id);
  if (it == uploads_.end()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "UPLOAD_NOT_BEGUN",
                     absl::StrCat("a chunk of update_id \"", chunk.update_id,
                                  "\" came before its BeginUpdate; send that first"));
  }
  const std::shared_ptr<Upload> upload = it->second.upload;
  const absl::Status status = upload->Append(chunk.offset, ByteChain(chunk.data), chunk.crc32c);
  if (!status.ok()) {
    uploads_.erase(it);
    return status;
  }
  if (upload->committed_offset() < upload->total_bytes()) return Complete{};
  Complete complete{it->second.round, upload};
  uploads_.erase(it);
  return complete;
}

std::map<std::string, absl::Status> StreamUploads::TakeIncomplete() {
  std::map<std::string, absl::Status> incomplete;
  for (const auto& [update_id, entry] : std::exchange(uploads_, {})) {
    incomplete[update_id] = MakeError(
        absl::StatusCode::kAborted, "UPLOAD_INCOMPLETE",
        absl::StrCat("update_id \"", update_id, "\" of contributor \"", entry.contributor,
                     "\" ended at byte ", entry.upload->committed_offset(), " of ",
                     entry.upload->total_bytes(), "; it is not counted; begin it again to resume"));
  }
  return incomplete;
}

std::vector<std::string> StreamUploads::RefuseAll(const absl::Status& why) {
  std::vector<std::string> ids;
  for (const auto& [update_id, entry] : std::exchange(uploads_, {})) {
    entry.upload->Refuse(why);
    ids.push_back(update_id);
  }
  return ids;
}

bool StreamUploads::WaitsForDisk(const std::string& update_id) const {
  const auto it = uploads_.find(update_id);
  return it != uploads_.end() && it->second.upload->waits_for_disk();
}

}  // namespace sparseagg

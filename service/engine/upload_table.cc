#include "service/engine/upload_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sparse/status.h"

namespace sparseagg {

UploadTable::Key UploadTable::KeyOf(const UpdateHeader& header) {
  return {header.round, header.contributor, header.update_id};
}

absl::StatusOr<std::unique_ptr<Upload>> UploadTable::BeginOrResume(
    UploadArgs args, Admission& memory, const TakePartial& take_partial) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto upload, FindOrStart(std::move(args), memory, take_partial));
  return upload->NewWriter();
}

absl::StatusOr<std::shared_ptr<ChunkedUpload>> UploadTable::FindOrStart(
    UploadArgs args, Admission& memory, const TakePartial& take_partial) {
  {
    std::lock_guard lock(mutex_);
    SPARSEAGG_ASSIGN_OR_RETURN(auto found, FindLocked(args));
    if (found != nullptr) return found;
    SPARSEAGG_RETURN_IF_ERROR(MakeRoomLocked(args.now()));
  }
  // Without the lock: it may wait for the disk.
  SPARSEAGG_ASSIGN_OR_RETURN(args.stored, take_partial());
  SPARSEAGG_RETURN_IF_ERROR(Admit(args, memory));
  std::lock_guard lock(mutex_);
  SPARSEAGG_ASSIGN_OR_RETURN(auto found, FindLocked(args));
  if (found != nullptr) return found;
  SPARSEAGG_RETURN_IF_ERROR(MakeRoomLocked(args.now()));
  const Key key = KeyOf(args.header);
  SPARSEAGG_ASSIGN_OR_RETURN(auto upload, ChunkedUpload::Make(std::move(args)));
  uploads_[key] = upload;
  return upload;
}

absl::StatusOr<std::shared_ptr<ChunkedUpload>> UploadTable::FindLocked(
    const UploadArgs& args) const {
  const auto found = uploads_.find(KeyOf(args.header));
  if (found == uploads_.end()) return nullptr;
  CloseIfIdle(*found->second, args.now());
  const bool same = found->second->SameAs(args.header, args.tensors);
  if (found->second->closed()) return nullptr;  // and its headers may have been gone
  if (same) return found->second;
  return MakeError(absl::StatusCode::kInvalidArgument, "UPLOAD_CONFLICT",
                   absl::StrCat("update \"", args.header.update_id,
                                "\" was begun with other headers or another weight; use another "
                                "update_id for another update"));
}

absl::Status UploadTable::MakeRoomLocked(std::chrono::steady_clock::time_point now) {
  if (uploads_.size() < limits_.open_uploads_max) return absl::OkStatus();
  DropIdleLocked(now);
  if (uploads_.size() < limits_.open_uploads_max) return absl::OkStatus();
  constexpr uint64_t kRetryAfterMs = 1000;  // an upload takes seconds
  return WithRetryAfter(MakeError(absl::StatusCode::kResourceExhausted, "UPLOADS_FULL",
                                  absl::StrCat("open-uploads-max = ", limits_.open_uploads_max,
                                               " chunked updates are under way; try again")),
                        kRetryAfterMs);
}

absl::Status UploadTable::Admit(UploadArgs& args, Admission& memory) {
  uint64_t bytes = args.staged_bytes;
  if (args.stored == nullptr) {
    // Both at once: uploads that are complete and wait for staging memory would block each other.
    bytes += args.total_bytes;
  } else {
    SPARSEAGG_ASSIGN_OR_RETURN(args.disk, disk_.Announce(args.total_bytes));
  }
  return AnnounceUpload(bytes, memory, args);
}

void UploadTable::CloseIfIdle(ChunkedUpload& upload,
                              std::chrono::steady_clock::time_point now) const {
  if (now - upload.last_used() <= std::chrono::milliseconds(limits_.upload_idle_ms)) return;
  upload.Close(
      MakeError(absl::StatusCode::kAborted, "UPLOAD_EXPIRED",
                absl::StrCat("update \"", upload.header().update_id, "\" received nothing for ",
                             "upload-idle-ms = ", limits_.upload_idle_ms, "; begin it again")));
}

void UploadTable::DropIdle(std::chrono::steady_clock::time_point now) {
  std::lock_guard lock(mutex_);
  DropIdleLocked(now);
}

void UploadTable::DropIdleLocked(std::chrono::steady_clock::time_point now) {
  std::erase_if(uploads_, [&](const auto& entry) {
    CloseIfIdle(*entry.second, now);
    return entry.second->closed();
  });
}

void UploadTable::DropRound(const std::string& round, const absl::Status& why) {
  std::lock_guard lock(mutex_);
  auto entry = uploads_.lower_bound(Key(round, "", ""));
  while (entry != uploads_.end() && std::get<0>(entry->first) == round) {
    entry->second->Close(why);
    entry = uploads_.erase(entry);
  }
}

size_t UploadTable::size() const {
  std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::count_if(
      uploads_.begin(), uploads_.end(), [](const auto& entry) { return !entry.second->closed(); }));
}

}  // namespace sparseagg

#include "service/engine/upload_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "sparse/status.h"

namespace sparseagg {

UploadTable::Key UploadTable::KeyOf(const UpdateHeader& header) {
  return {header.round, header.contributor, header.update_id};
}

absl::StatusOr<std::unique_ptr<Upload>> UploadTable::BeginOrResume(Begin begin) {
  const auto now = begin.args.now();
  std::lock_guard lock(mutex_);
  DropIdleLocked(now);
  const auto found = uploads_.find(KeyOf(begin.args.header));
  if (found != uploads_.end() && !found->second->closed()) {
    if (!found->second->SameAs(begin.args.header, begin.args.tensors)) {
      return MakeError(absl::StatusCode::kInvalidArgument, "UPLOAD_CONFLICT",
                       absl::StrCat("update \"", begin.args.header.update_id,
                                    "\" was begun with other headers or another weight; use "
                                    "another update_id for another update"));
    }
    return found->second->NewWriter();
  }
  if (found != uploads_.end()) uploads_.erase(found);
  SPARSEAGG_ASSIGN_OR_RETURN(const auto upload, StartLocked(std::move(begin)));
  return upload->NewWriter();
}

absl::StatusOr<std::shared_ptr<ChunkedUpload>> UploadTable::StartLocked(Begin begin) {
  if (uploads_.size() >= uploads_max_) {
    constexpr uint64_t kRetryAfterMs = 1000;  // an upload takes seconds
    return WithRetryAfter(MakeError(absl::StatusCode::kResourceExhausted, "UPLOADS_FULL",
                                    absl::StrCat("open-uploads-max = ", uploads_max_,
                                                 " chunked updates are under way; try again")),
                          kRetryAfterMs);
  }
  // Both at once: uploads that are complete and wait for staging memory would block each other.
  const uint64_t total_bytes = begin.args.total_bytes;
  SPARSEAGG_ASSIGN_OR_RETURN(begin.args.memory,
                             begin.admission->Reserve(total_bytes + begin.staged_bytes));
  begin.args.staging = begin.args.memory.Split(begin.staged_bytes);
  const Key key = KeyOf(begin.args.header);
  SPARSEAGG_ASSIGN_OR_RETURN(auto upload, ChunkedUpload::Make(std::move(begin.args)));
  uploads_.emplace(key, upload);
  return upload;
}

void UploadTable::DropIdleLocked(std::chrono::system_clock::time_point now) {
  const absl::Status idle = MakeError(
      absl::StatusCode::kAborted, "UPLOAD_EXPIRED",
      absl::StrCat("the update received nothing for ", kIdleMax.count(), " minutes; begin again"));
  for (const auto& [key, upload] : uploads_) {
    if (now - upload->last_used() > kIdleMax) upload->Close(idle);
  }
  std::erase_if(uploads_, [](const auto& entry) { return entry.second->closed(); });
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
  return uploads_.size();
}

}  // namespace sparseagg

#include "service/engine/upload/upload_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/names.h"

namespace sparseagg {

UploadTable::Key UploadTable::KeyOf(const UploadArgs& args) {
  return {args.header.round, args.round, args.header.contributor, args.header.update_id};
}

absl::StatusOr<std::unique_ptr<Upload>> UploadTable::BeginOrResume(
    UploadArgs args, TenantBudgets& tenant, const OpenUploadPayload& take_partial) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto upload, FindOrStart(std::move(args), tenant, take_partial));
  return upload->NewWriter();
}

absl::StatusOr<std::shared_ptr<ChunkedUpload>> UploadTable::FindOrStart(
    UploadArgs args, TenantBudgets& tenant, const OpenUploadPayload& take_partial) {
  {
    std::lock_guard lock(mutex_);
    SPARSEAGG_ASSIGN_OR_RETURN(auto found, FindLocked(args));
    if (found != nullptr) return found;
    SPARSEAGG_RETURN_IF_ERROR(MakeRoomLocked(args, tenant.limits));
  }
  // This runs without the lock, because it may wait for the disk.
  SPARSEAGG_ASSIGN_OR_RETURN(args.stored, take_partial());
  SPARSEAGG_RETURN_IF_ERROR(Admit(args, tenant.staging));
  std::lock_guard lock(mutex_);
  SPARSEAGG_ASSIGN_OR_RETURN(auto found, FindLocked(args));
  if (found != nullptr) return found;
  SPARSEAGG_RETURN_IF_ERROR(MakeRoomLocked(args, tenant.limits));
  const Key key = KeyOf(args);
  SPARSEAGG_ASSIGN_OR_RETURN(auto upload, ChunkedUpload::Make(std::move(args)));
  uploads_[key] = upload;
  return upload;
}

absl::StatusOr<std::shared_ptr<ChunkedUpload>> UploadTable::FindLocked(
    const UploadArgs& args) const {
  const auto found = uploads_.find(KeyOf(args));
  if (found == uploads_.end() || CloseIfIdle(*found->second, args.now())) return nullptr;
  const bool same = found->second->SameAs(args.header, args.tensors);
  // It was closed concurrently, so SameAs() may have compared freed headers.
  if (found->second->closed()) return nullptr;
  if (same) return found->second;
  return MakeError(absl::StatusCode::kInvalidArgument, "UPLOAD_CONFLICT",
                   absl::StrCat("update \"", args.header.update_id,
                                "\" was begun with other headers or another weight; use another "
                                "update_id for another update"));
}

absl::Status UploadTable::MakeRoomLocked(const UploadArgs& args, const TenantLimits& of_tenant) {
  if (CheckNumberLocked(args, of_tenant).ok()) return absl::OkStatus();
  DropIdleLocked(args.now());
  return CheckNumberLocked(args, of_tenant);
}

absl::Status UploadTable::CheckNumberLocked(const UploadArgs& args,
                                            const TenantLimits& of_tenant) const {
  constexpr uint64_t kRetryAfterMs = 1000;  // an upload takes seconds
  const std::string_view tenant = TenantOf(args.header.round);
  if (of_tenant.uploads_max > 0 && NumberOfLocked(tenant) >= of_tenant.uploads_max) {
    return WithRetryAfter(
        MakeError(absl::StatusCode::kResourceExhausted, "TENANT_UPLOADS_FULL",
                  absl::StrCat("tenant-uploads-max = ", of_tenant.uploads_max,
                               " chunked updates of tenant \"", std::string(tenant),
                               "\" are in progress; try again")),
        kRetryAfterMs);
  }
  if (uploads_.size() < limits_.open_uploads_max) return absl::OkStatus();
  return WithRetryAfter(MakeError(absl::StatusCode::kResourceExhausted, "UPLOADS_FULL",
                                  absl::StrCat("open-uploads-max = ", limits_.open_uploads_max,
                                               " chunked updates are in progress; try again")),
                        kRetryAfterMs);
}

uint64_t UploadTable::NumberOfLocked(std::string_view tenant) const {
  const std::string prefix = QualifiedName(tenant, kRoundPrefix);
  uint64_t number = 0;
  for (auto entry = uploads_.lower_bound(Key(prefix, nullptr, "", ""));
       entry != uploads_.end() && std::get<0>(entry->first).starts_with(prefix); ++entry) {
    ++number;
  }
  return number;
}

absl::Status UploadTable::Admit(UploadArgs& args, Admission& memory) {
  if (args.stored != nullptr) {
    SPARSEAGG_ASSIGN_OR_RETURN(args.disk, disk_.Announce(args.total_bytes));
  }
  return AnnounceUpload(memory, args);
}

bool UploadTable::CloseIfIdle(ChunkedUpload& upload,
                              std::chrono::steady_clock::time_point now) const {
  return upload.CloseIfUnusedSince(now - std::chrono::milliseconds(limits_.upload_idle_ms), [&] {
    return MakeError(
        absl::StatusCode::kAborted, "UPLOAD_EXPIRED",
        absl::StrCat("update \"", upload.header().update_id, "\" received nothing for ",
                     "upload-idle-ms = ", limits_.upload_idle_ms, "; begin it again"));
  });
}

void UploadTable::DropIdle(std::chrono::steady_clock::time_point now) {
  std::vector<std::shared_ptr<ChunkedUpload>> all;
  {
    std::lock_guard lock(mutex_);
    all.reserve(uploads_.size());
    for (const auto& [key, upload] : uploads_) all.push_back(upload);
  }
  for (const auto& upload : all) CloseIfIdle(*upload, now);
  std::lock_guard lock(mutex_);
  std::erase_if(uploads_, [](const auto& entry) { return entry.second->closed(); });
}

void UploadTable::DropIdleLocked(std::chrono::steady_clock::time_point now) {
  std::erase_if(uploads_, [&](const auto& entry) { return CloseIfIdle(*entry.second, now); });
}

void UploadTable::DropRound(const std::string& name, const void* round, const absl::Status& why) {
  std::vector<std::shared_ptr<ChunkedUpload>> dropped;
  {
    std::lock_guard lock(mutex_);
    auto entry = uploads_.lower_bound(Key(name, round, "", ""));
    while (entry != uploads_.end() && std::get<0>(entry->first) == name &&
           std::get<1>(entry->first) == round) {
      dropped.push_back(std::move(entry->second));
      entry = uploads_.erase(entry);
    }
  }
  for (const auto& upload : dropped) upload->Close(why);
}

size_t UploadTable::size() const {
  std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::count_if(
      uploads_.begin(), uploads_.end(), [](const auto& entry) { return !entry.second->closed(); }));
}

}  // namespace sparseagg

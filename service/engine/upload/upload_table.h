// The uploads in progress, by (round, contributor, update_id), so that a new stream can resume the
// upload of a broken one. The key has the identity of the round and not only its name, which may be
// used again. Uploads are bounded in number, for each tenant and in all, in memory, in disk space
// and in idle time.
#ifndef SPARSEAGG_SERVICE_ENGINE_UPLOAD_UPLOAD_TABLE_H_
#define SPARSEAGG_SERVICE_ENGINE_UPLOAD_UPLOAD_TABLE_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

#include "service/engine/memory/tenant_budgets.h"
#include "service/engine/upload/upload.h"

namespace sparseagg {

// Thread-safe.
class UploadTable {
 public:
  explicit UploadTable(const Limits& limits)
      : limits_(limits), disk_(limits.upload_disk_bytes_max, kUploadDiskBudget) {}

  // Returns the store's payload for a new upload; null: the bytes are kept in memory.
  using OpenUploadPayload = std::function<absl::StatusOr<std::unique_ptr<UploadPayload>>()>;
  // Resumes the upload with the same key, or starts one. `args` has no claims; this call announces
  // them to the budgets of `tenant`, which must outlive the upload. Errors: INVALID_ARGUMENT
  // (UPLOAD_CONFLICT) if the upload was begun with other headers; RESOURCE_EXHAUSTED (UPLOADS_FULL,
  // TENANT_UPLOADS_FULL, STAGING_FULL), with a time to retry after.
  absl::StatusOr<std::unique_ptr<Upload>> BeginOrResume(UploadArgs args, TenantBudgets& tenant,
                                                        const OpenUploadPayload& take_partial);

  // Closes all uploads that have received nothing for upload_idle_ms. Starting an upload does this
  // only if the table is full. May wait for a disk, without blocking other calls.
  void DropIdle(std::chrono::steady_clock::time_point now);

  // Closes all uploads of a round that accepts no more updates. `round` is UploadArgs::round,
  // `name` the name in their headers.
  void DropRound(const std::string& name, const void* round, const absl::Status& why);

  // Returns the number of open uploads.
  size_t size() const;
  uint64_t disk_bytes() const { return disk_.bytes_in_use(); }

 private:
  // (name of the round, UploadArgs::round, contributor, update_id). A tenant's rounds are adjacent.
  using Key = std::tuple<std::string, const void*, std::string, std::string>;
  static Key KeyOf(const UploadArgs& args);
  absl::StatusOr<std::shared_ptr<ChunkedUpload>> FindOrStart(UploadArgs args, TenantBudgets& tenant,
                                                             const OpenUploadPayload& take_partial);
  // Returns null if there is none.
  absl::StatusOr<std::shared_ptr<ChunkedUpload>> FindLocked(const UploadArgs& args) const;
  absl::Status MakeRoomLocked(const UploadArgs& args, const TenantLimits& of_tenant);
  void DropIdleLocked(std::chrono::steady_clock::time_point now);
  // Returns whether the upload is closed.
  bool CloseIfIdle(ChunkedUpload& upload, std::chrono::steady_clock::time_point now) const;
  absl::Status CheckNumberLocked(const UploadArgs& args, const TenantLimits& of_tenant) const;
  uint64_t NumberOfLocked(std::string_view tenant) const;
  absl::Status Admit(UploadArgs& args, Admission& memory);

  const Limits& limits_;
  Admission disk_;
  mutable std::mutex mutex_;  // taken before the mutex of an upload
  std::map<Key, std::shared_ptr<ChunkedUpload>> uploads_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_UPLOAD_UPLOAD_TABLE_H_

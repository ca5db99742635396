// The chunked uploads under way, by (round, contributor, update_id), so that a new stream can
// resume what a broken one began. A round is itself, not its name, which may be given again.
// Bounded in number, also of a tenant, in memory and on disk, and in the time that nothing comes.
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

#include "service/engine/memory/tenant_books.h"
#include "service/engine/upload/upload.h"

namespace sparseagg {

// Thread-safe.
class UploadTable {
 public:
  explicit UploadTable(const Limits& limits)
      : limits_(limits), disk_(limits.upload_disk_bytes_max, kUploadDiskBudget) {}

  // Where the store keeps the byte string of an upload that starts; null: in memory.
  using TakePartial = std::function<absl::StatusOr<std::unique_ptr<PartialPayload>>()>;
  // Resumes the upload of the same key, or starts one; `args` come without claims;
  // those on the memory of the round's `tenant` are announced, which outlives the upload.
  // INVALID_ARGUMENT (UPLOAD_CONFLICT) when it was begun with other headers; RESOURCE_EXHAUSTED,
  // with a time to wait: UPLOADS_FULL, TENANT_UPLOADS_FULL, STAGING_FULL.
  absl::StatusOr<std::unique_ptr<Upload>> BeginOrResume(UploadArgs args, TenantBooks& tenant,
                                                        const TakePartial& take_partial);

  // Closes uploads that nothing came for in upload_idle_ms. Looks at all, as a start does only when
  // the table is full. May wait for a disk, others meanwhile do not.
  void DropIdle(std::chrono::steady_clock::time_point now);

  // Closes all uploads of a round that takes no more updates. `round` is UploadArgs::round, `name`
  // what its headers say.
  void DropRound(const std::string& name, const void* round, const absl::Status& why);

  // Those that are open.
  size_t size() const;
  uint64_t disk_bytes() const { return disk_.bytes_in_use(); }

 private:
  // Name of the round, itself, contributor, update_id: a tenant's rounds are neighbours.
  using Key = std::tuple<std::string, const void*, std::string, std::string>;
  static Key KeyOf(const UploadArgs& args);
  absl::StatusOr<std::shared_ptr<ChunkedUpload>> FindOrStart(UploadArgs args, TenantBooks& tenant,
                                                             const TakePartial& take_partial);
  // Null when there is none.
  absl::StatusOr<std::shared_ptr<ChunkedUpload>> FindLocked(const UploadArgs& args) const;
  absl::Status MakeRoomLocked(const UploadArgs& args, const TenantLimits& of_tenant);
  void DropIdleLocked(std::chrono::steady_clock::time_point now);
  // Whether it is closed then.
  bool CloseIfIdle(ChunkedUpload& upload, std::chrono::steady_clock::time_point now) const;
  absl::Status CheckNumberLocked(const UploadArgs& args, const TenantLimits& of_tenant) const;
  uint64_t NumberOfLocked(std::string_view tenant) const;
  absl::Status Admit(UploadArgs& args, Admission& memory);

  const Limits& limits_;
  Admission disk_;
  mutable std::mutex mutex_;  // taken before an upload's own
  std::map<Key, std::shared_ptr<ChunkedUpload>> uploads_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_UPLOAD_UPLOAD_TABLE_H_

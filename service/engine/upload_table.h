// The chunked uploads under way, by (round, contributor, update_id), so that a new stream can
// resume what a broken one began. Bounded in number, and each one's memory is admitted before it is
// taken.
#ifndef SPARSEAGG_SERVICE_ENGINE_UPLOAD_TABLE_H_
#define SPARSEAGG_SERVICE_ENGINE_UPLOAD_TABLE_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

#include "service/engine/upload.h"

namespace sparseagg {

// Thread-safe.
class UploadTable {
 public:
  explicit UploadTable(uint64_t uploads_max) : uploads_max_(uploads_max) {}

  struct Begin {
    UploadArgs args;  // without reservations
    uint64_t staged_bytes = 0;
    Admission* admission = nullptr;  // where its memory comes from; outlives the upload
  };
  // Resumes the upload of the same key, or starts one. INVALID_ARGUMENT (UPLOAD_CONFLICT) when it
  // was begun with other headers; RESOURCE_EXHAUSTED, with a time to wait: UPLOADS_FULL,
  // STAGING_FULL. Drops uploads idle for kIdleMax.
  absl::StatusOr<std::unique_ptr<Upload>> BeginOrResume(Begin begin);

  // Closes all uploads of a round that takes no more updates.
  void DropRound(const std::string& round, const absl::Status& why);

  size_t size() const;

  // A client that comes back later starts again; long enough for a phone that changes networks.
  static constexpr std::chrono::minutes kIdleMax{10};

 private:
  using Key = std::tuple<std::string, std::string, std::string>;
  static Key KeyOf(const UpdateHeader& header);
  absl::StatusOr<std::shared_ptr<ChunkedUpload>> StartLocked(Begin begin);
  void DropIdleLocked(std::chrono::system_clock::time_point now);

  const uint64_t uploads_max_;
  mutable std::mutex mutex_;  // taken before an upload's own
  std::map<Key, std::shared_ptr<ChunkedUpload>> uploads_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_UPLOAD_TABLE_H_

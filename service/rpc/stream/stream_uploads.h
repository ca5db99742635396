// The unfinished chunked updates of one stream, by update_id.
#ifndef SPARSEAGG_SERVICE_RPC_STREAM_STREAM_UPLOADS_H_
#define SPARSEAGG_SERVICE_RPC_STREAM_STREAM_UPLOADS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/engine/engine.h"
#include "service/rpc/wire/received_update.h"

namespace sparseagg {

// For one thread at a time.
class StreamUploads {
 public:
  // ALREADY_EXISTS (UPDATE_ID_IN_USE) if this stream has an unfinished upload with that id of
  // another contributor or round. To be called before the engine begins the upload.
  absl::Status CheckId(const UpdateHeader& header) const;

  // Adds an upload. Replaces one of the same id, which the client resumes.
  void Insert(const UpdateHeader& header, std::shared_ptr<Upload> upload);

  struct Complete {
    std::string round;
    std::shared_ptr<Upload> upload;  // null: not complete yet
  };
  // Adds a chunk to its upload. Returns the upload if that completed it, and removes it from the
  // table. An error (UPLOAD_NOT_BEGUN, or the upload's) removes it, too.
  absl::StatusOr<Complete> Append(const ReceivedChunk& chunk);

  // Removes every upload. Returns by update_id an error that says what is missing: ABORTED
  // (UPLOAD_INCOMPLETE).
  std::map<std::string, absl::Status> TakeIncomplete();

  // Removes every upload, frees its memory and returns the ids.
  std::vector<std::string> RefuseAll(const absl::Status& why);

  bool empty() const { return uploads_.empty(); }
  bool Contains(const std::string& update_id) const { return uploads_.contains(update_id); }
  // Whether adding a chunk to this upload waits for the disk.
  bool WaitsForDisk(const std::string& update_id) const;
  void Erase(const std::string& update_id) { uploads_.erase(update_id); }

 private:
  struct Entry {
    std::string round;
    std::string contributor;
    std::shared_ptr<Upload> upload;
  };
  std::map<std::string, Entry> uploads_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_STREAM_STREAM_UPLOADS_H_

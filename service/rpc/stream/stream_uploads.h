// The chunked updates that one stream has under way, by update_id.
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
  // ALREADY_EXISTS (UPDATE_ID_IN_USE) when this stream has another contributor's or round's upload
  // of that id under way. To be asked before the engine is.
  absl::Status CheckId(const UpdateHeader& header) const;

  // Replaces an upload of the same id: the client resumes it.
  void Insert(const UpdateHeader& header, std::shared_ptr<Upload> upload);

  struct Complete {
    std::string round;
    std::shared_ptr<Upload> upload;  // null: it is not complete
  };
  // Adds a chunk to its upload. Returns the upload when that completed it; it is then no longer in
  // the table. An error (UPLOAD_NOT_BEGUN, or the upload's) takes the upload out of the table.
  absl::StatusOr<Complete> Append(const ReceivedChunk& chunk);

  // Takes every upload out, with what it lacks: ABORTED (UPLOAD_INCOMPLETE), by update_id.
  std::map<std::string, absl::Status> TakeIncomplete();

  // Takes every upload out and frees what it has. Their ids.
  std::vector<std::string> RefuseAll(const absl::Status& why);

  bool empty() const { return uploads_.empty(); }
  bool Contains(const std::string& update_id) const { return uploads_.contains(update_id); }
  // Whether adding a chunk to it waits for the disk.
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

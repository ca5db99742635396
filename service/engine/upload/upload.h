// An update that arrives in chunks. Its bytes outlive the stream that sent them: another stream can
// resume where the first broke off. Only the latest stream may write.
//
//   receiving --Finish()--> finishing --counted or refused--> closed
//   receiving <--server is busy, the bytes are kept-- finishing
//   receiving --Close(): idle, too slow, lost by the disk, round ended--> closed
//
// Memory is reserved as bytes arrive (Claim in admission.h): an upload takes only the memory of its
// headers until it sends a byte.
#ifndef SPARSEAGG_SERVICE_ENGINE_UPLOAD_UPLOAD_H_
#define SPARSEAGG_SERVICE_ENGINE_UPLOAD_UPLOAD_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "service/engine/engine.h"
#include "service/engine/ingest/payload_bytes.h"
#include "service/engine/memory/admission.h"

namespace sparseagg {

// Counts a complete update. If it counts the update, it takes `staging`, and `stored` or `arrived`
// of the body.
using CommitUpload = std::function<absl::StatusOr<Receipt>(
    const UpdateHeader& header, const UpdateBody& body, Reservation& staging)>;

struct UploadArgs {
  UpdateHeader header;
  const void* round = nullptr;  // identifies the round: its name may be used again
  std::vector<EncodedHeader> tensors;
  uint64_t total_bytes = 0;   // length of the byte string
  uint64_t staged_bytes = 0;  // memory of the decoded entries
  Claim memory;               // for bytes, entries and headers
  // Set if the store keeps the byte string: the payload, and the claim on disk space for it.
  std::unique_ptr<UploadPayload> stored;
  Claim disk;
  // Starts decoding the update while it arrives. If unset, the bytes are kept until the update is
  // complete.
  std::function<absl::StatusOr<std::unique_ptr<ArrivingUpdate>>(std::span<const EncodedHeader>)>
      stage;
  // Set by AnnounceUpload(): the update is decoded from its first byte on, or refused.
  bool stage_at_once = false;
  CommitUpload commit;
  std::function<std::chrono::steady_clock::time_point()> now;
};

// Announces the memory of an upload: headers, which are reserved here, entries and, unless the
// store has them, bytes. Bytes and entries are announced together, because complete uploads that
// wait for staging memory would block each other. If the budget can never hold both, the update is
// decoded on arrival, where that is possible, and needs memory for its entries only. Errors are
// those of Admission::Announce().
absl::Status AnnounceUpload(Admission& memory, UploadArgs& args);
// Returns the approximate memory of `headers`.
uint64_t HeaderBytes(std::span<const EncodedHeader> headers);

// Thread-safe.
class ChunkedUpload : public std::enable_shared_from_this<ChunkedUpload> {
 public:
  // Returns RESOURCE_EXHAUSTED (UPLOADS_FULL) if the budget has no room for the bytes that the
  // store already has.
  static absl::StatusOr<std::shared_ptr<ChunkedUpload>> Make(UploadArgs args);

  const UpdateHeader& header() const { return args_.header; }
  // Returns whether a repeated BeginUpload() describes the same update.
  bool SameAs(const UpdateHeader& header, std::span<const EncodedHeader> tensors) const;

  // Returns a handle that may write from now on; calls on earlier handles return ABORTED
  // (UPLOAD_TAKEN_OVER). Returns ABORTED (UPLOAD_BUSY) while the update is being finished; a retry
  // gets the receipt. Waits for a chunk that is being appended.
  absl::StatusOr<std::unique_ptr<Upload>> NewWriter();

  // Frees bytes and headers; later calls on handles return `why`. Has no effect on an update that
  // is being finished.
  void Close(const absl::Status& why);
  // Closes the upload unless it was used after `time`. Returns whether it is closed.
  bool CloseIfUnusedSince(std::chrono::steady_clock::time_point time,
                          const std::function<absl::Status()>& why);
  bool closed() const;

 private:
  class Writer;
  enum class Phase { kReceiving, kFinishing, kClosed };

  explicit ChunkedUpload(UploadArgs args);

  uint64_t committed() const;
  absl::Status Append(uint64_t writer, uint64_t offset, ByteChain data,
                      std::optional<uint32_t> crc32c);
  bool arrived() const;
  absl::StatusOr<Receipt> Finish(uint64_t writer);
  void Refuse(uint64_t writer, const absl::Status& why);
  absl::Status CheckWriterLocked(uint64_t writer) const;
  absl::StatusOr<Receipt> CommitBytes();
  void CloseLocked(const absl::Status& why);
  void FreeLocked();

  bool on_disk_ = false;  // constant after Make()
  UploadArgs args_;       // its claims may be used only by the holder of bytes_
  mutable std::mutex mutex_;
  std::condition_variable appended_;
  Phase phase_ = Phase::kReceiving;
  // Used without the lock by the thread that appends or finishes; null when closed.
  std::unique_ptr<PayloadBytes> bytes_;
  bool appending_ = false;
  uint64_t committed_ = 0;
  uint64_t writer_ = 0;
  absl::Status closed_because_;
  std::chrono::steady_clock::time_point last_used_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_UPLOAD_UPLOAD_H_

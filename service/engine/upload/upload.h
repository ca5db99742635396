// An update that arrives in chunks. Its bytes outlive the stream that brought them: another stream
// can take over where the first broke off. One stream writes at a time, the latest.
//
//   receiving --Finish--> finishing --counted or refused--> closed         (closed also by Close():
//   idle, too slow, lost by the disk, round ended)
//       ^--------------------'  when the server is busy: the bytes stay
//
// Bytes are reserved as they arrive (Claim in admission.h): an upload that has begun costs what its
// headers take until it sends something.
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

// Counts a complete update. Takes `staging` when it does, and what is not chains of the body.
using CommitUpload = std::function<absl::StatusOr<Receipt>(
    const UpdateHeader& header, const UpdateBody& body, Reservation& staging)>;

struct UploadArgs {
  UpdateHeader header;
  const void* round = nullptr;  // that header.round was the name of: names are given again
  std::vector<EncodedHeader> tensors;
  uint64_t total_bytes = 0;   // of the byte string
  uint64_t staged_bytes = 0;  // of the decoded entries
  Claim memory;               // for both, and the headers
  // When the byte string is kept by the store: its place, and the claim on room for it.
  std::unique_ptr<PartialPayload> stored;
  Claim disk;
  // Begins to decode it while it arrives; unset: it is kept as it came until it is complete.
  std::function<absl::StatusOr<std::unique_ptr<ArrivingUpdate>>(std::span<const EncodedHeader>)>
      stage;
  // Set by AnnounceUpload(): it is decoded from its first byte on, or refused.
  bool stage_at_once = false;
  CommitUpload commit;
  std::function<std::chrono::steady_clock::time_point()> now;
};

// Announces the memory of an upload: of its headers, which is taken, its entries and, unless the
// store has them, its bytes. Both at once: uploads that are complete and wait for staging memory
// would block each other. One that never has room for both is decoded as it comes, where that can
// be, and needs room for its entries only. Errors of the budget.
absl::Status AnnounceUpload(Admission& memory, UploadArgs& args);
// Of `headers`, about.
uint64_t HeaderBytes(std::span<const EncodedHeader> headers);

// Thread-safe.
class ChunkedUpload : public std::enable_shared_from_this<ChunkedUpload> {
 public:
  // RESOURCE_EXHAUSTED (UPLOADS_FULL) when there is no room for what the store has of it already.
  static absl::StatusOr<std::shared_ptr<ChunkedUpload>> Make(UploadArgs args);

  const UpdateHeader& header() const { return args_.header; }
  // Whether a repeated BeginUpload describes the same update.
  bool SameAs(const UpdateHeader& header, std::span<const EncodedHeader> tensors) const;

  // A handle that writes from now on; ABORTED (UPLOAD_TAKEN_OVER) for the one before. ABORTED
  // (UPLOAD_BUSY) while the update is being finished: a retry will be answered with the receipt.
  // Waits for a chunk that is being appended.
  absl::StatusOr<std::unique_ptr<Upload>> NewWriter();

  // Frees bytes and headers; handles answer with `why`. Leaves an update alone that is being
  // finished.
  void Close(const absl::Status& why);
  // The same, unless something has come for it since. Whether it is closed then.
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

  bool on_disk_ = false;  // does not change
  UploadArgs args_;       // the claims belong to whoever has the bytes
  mutable std::mutex mutex_;
  std::condition_variable appended_;
  Phase phase_ = Phase::kReceiving;
  // Used outside the lock by the one that appends, or that finishes; null when closed.
  std::unique_ptr<PayloadBytes> bytes_;
  bool appending_ = false;
  uint64_t committed_ = 0;
  uint64_t writer_ = 0;
  absl::Status closed_because_;
  std::chrono::steady_clock::time_point last_used_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_UPLOAD_UPLOAD_H_

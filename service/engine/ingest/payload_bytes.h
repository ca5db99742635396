// Holds the bytes of an update that arrives in chunks until the update is complete: in memory that
// grows with them, or in a file of the store.
#ifndef SPARSEAGG_SERVICE_ENGINE_INGEST_PAYLOAD_BYTES_H_
#define SPARSEAGG_SERVICE_ENGINE_INGEST_PAYLOAD_BYTES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "service/engine/ingest/arriving_update.h"
#include "service/engine/memory/admission.h"
#include "service/store/store.h"

namespace sparseagg {

// Thread-compatible.
class PayloadBytes {
 public:
  virtual ~PayloadBytes() = default;

  // Returns the number of bytes received so far.
  virtual uint64_t bytes() const = 0;
  // Appends all of `data` or, on an error with a time to retry after, nothing.
  virtual absl::Status Append(ByteChain data) = 0;
  // Returns the byte string in pieces, valid until this object is destroyed. REQUIRES: arrived() is
  // null.
  virtual absl::StatusOr<std::vector<std::string_view>> Pieces() = 0;
  // Return the update that was decoded on arrival in place of its bytes, and the reservation for
  // its memory; null if the bytes were kept.
  virtual ArrivingUpdate* arrived() { return nullptr; }
  virtual Reservation* staging() { return nullptr; }
  // Returns the payload in the store; null if the bytes are in memory.
  virtual UploadPayload* stored() { return nullptr; }
  // Deletes the bytes. Without this call, a file is kept for a later stream that resumes the
  // update.
  virtual void Discard() {}
};

// The settings for decoding an update while it arrives.
struct StageOnArrival {
  uint64_t bytes = 0;  // memory that decoding on arrival takes
  // If unset, the update is not decoded on arrival.
  std::function<absl::StatusOr<std::unique_ptr<ArrivingUpdate>>()> stage;
  // If true, staging starts with the first byte or the update is refused, because the budget never
  // has room for both bytes and entries.
  bool at_once = false;
};

// Keeps the bytes in memory that is taken from `claim` as they arrive: at most twice the bytes
// received, and never more than `total_bytes`. Bytes that are not decoded on arrival are one piece.
// If much memory is free when an eighth of the update has arrived, the update is staged and decoded
// from there on. An update that is staged at once takes the memory for that from the claim or is
// refused. `claim` must outlive the payload.
std::unique_ptr<PayloadBytes> MakeMemoryPayload(Claim& claim, uint64_t total_bytes,
                                                StageOnArrival on_arrival);

// Keeps the bytes in a file of the store. Takes its disk space from `claim`, which must outlive the
// payload.
absl::StatusOr<std::unique_ptr<PayloadBytes>> MakeStoredPayload(
    Claim& claim, std::unique_ptr<UploadPayload> stored);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_INGEST_PAYLOAD_BYTES_H_

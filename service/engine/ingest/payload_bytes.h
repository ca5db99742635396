// Where the bytes of an update that arrives in chunks are until the update is complete: in memory
// that grows with them, or in a file of the store.
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

  // How many are there.
  virtual uint64_t bytes() const = 0;
  // All of `data` or, on an error with a time to wait, nothing.
  virtual absl::Status Append(ByteChain data) = 0;
  // The byte string in pieces, valid until this goes. REQUIRES: not arrived().
  virtual absl::StatusOr<std::vector<std::string_view>> Pieces() = 0;
  // What was decoded as it came, and the memory for that, instead of the bytes; null: they are
  // there.
  virtual ArrivingUpdate* arrived() { return nullptr; }
  virtual Reservation* staging() { return nullptr; }
  // The file of the store; null when the bytes are in memory.
  virtual PartialPayload* stored() { return nullptr; }
  // They are not wanted any more. A file would otherwise be kept for whoever resumes the update.
  virtual void Discard() {}
};

// How an update is decoded while it arrives.
struct StageOnArrival {
  uint64_t bytes = 0;  // of memory that this takes
  std::function<absl::StatusOr<std::unique_ptr<ArrivingUpdate>>()> stage;  // unset: it is not
  // With its first byte, or not at all: there is never memory for both bytes and entries.
  bool at_once = false;
};

// In memory that is taken from `claim` as bytes arrive: at most twice as much as arrived, and never
// more than `total_bytes`. While much memory is free, an update of which an eighth has come is
// staged and decoded from there on; one that is staged at once takes from the claim what that
// needs, or is refused. `claim` must outlive it.
std::unique_ptr<PayloadBytes> MakeMemoryPayload(Claim& claim, uint64_t total_bytes,
                                                StageOnArrival on_arrival);

// In a file of the store, with room taken from `claim`, which must outlive it.
absl::StatusOr<std::unique_ptr<PayloadBytes>> MakeStoredPayload(
    Claim& claim, std::unique_ptr<PartialPayload> stored);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_INGEST_PAYLOAD_BYTES_H_

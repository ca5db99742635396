#include "service/engine/payload_bytes.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sparse/status.h"

namespace sparseagg {
namespace {

// Pieces grow up to this: few of them, and no large one for nothing.
constexpr uint64_t kPieceBytesMax = uint64_t{4} << 20;

class MemoryPayload : public PayloadBytes {
 public:
  MemoryPayload(Claim& claim, uint64_t total_bytes) : claim_(claim), total_bytes_(total_bytes) {}

  uint64_t bytes() const override { return bytes_; }

  absl::Status Append(std::string_view data) override {
    while (capacity_ - bytes_ < data.size()) SPARSEAGG_RETURN_IF_ERROR(AddPiece(data.size()));
    while (!data.empty()) {
      Piece& piece = pieces_[filling_];
      const uint64_t part = std::min<uint64_t>(data.size(), piece.capacity - piece.size);
      std::memcpy(piece.data.get() + piece.size, data.data(), part);
      piece.size += part;
      bytes_ += part;
      data.remove_prefix(part);
      if (piece.size == piece.capacity) ++filling_;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string_view>> Pieces() override {
    std::vector<std::string_view> pieces;
    for (const Piece& piece : pieces_) pieces.emplace_back(piece.data.get(), piece.size);
    return pieces;
  }

 private:
  struct Piece {
    std::unique_ptr<char[]> data;
    uint64_t capacity = 0;
    uint64_t size = 0;
  };

  // As large as the chunk that needs it or as all before, whichever is more.
  absl::Status AddPiece(uint64_t chunk_bytes) {
    const uint64_t wanted = std::min(std::max(chunk_bytes, capacity_), kPieceBytesMax);
    const uint64_t capacity = std::min(wanted, total_bytes_ - capacity_);
    SPARSEAGG_RETURN_IF_ERROR(claim_.Take(capacity));
    std::unique_ptr<char[]> data(new (std::nothrow) char[capacity]);
    if (data == nullptr) {
      constexpr uint64_t kRetryAfterMs = 200;
      return WithRetryAfter(
          MakeError(absl::StatusCode::kResourceExhausted, "STAGING_FULL",
                    absl::StrCat("no memory for ", capacity, " bytes of an update; try again")),
          kRetryAfterMs);
    }
    pieces_.push_back({std::move(data), capacity, 0});
    capacity_ += capacity;
    return absl::OkStatus();
  }

  Claim& claim_;
  const uint64_t total_bytes_;
  std::vector<Piece> pieces_;
  size_t filling_ = 0;     // of pieces_; those before are full
  uint64_t capacity_ = 0;  // of all pieces
  uint64_t bytes_ = 0;
};

class StoredPayload : public PayloadBytes {
 public:
  StoredPayload(Claim& claim, std::unique_ptr<PartialPayload> stored)
      : claim_(claim), stored_(std::move(stored)) {}

  uint64_t bytes() const override { return stored_->bytes(); }

  absl::Status Append(std::string_view data) override {
    const uint64_t end = stored_->bytes() + data.size();
    if (end > taken_) {
      SPARSEAGG_RETURN_IF_ERROR(claim_.Take(end - taken_));
      taken_ = end;
    }
    return stored_->Append(data);
  }

  absl::StatusOr<std::vector<std::string_view>> Pieces() override {
    SPARSEAGG_ASSIGN_OR_RETURN(const std::string_view all, stored_->View());
    return std::vector<std::string_view>{all};
  }
  PartialPayload* stored() override { return stored_.get(); }
  void Discard() override { stored_->Discard(); }

  absl::Status TakeWhatIsThere() {
    taken_ = stored_->bytes();
    return claim_.Take(taken_);
  }

 private:
  Claim& claim_;
  const std::unique_ptr<PartialPayload> stored_;
  uint64_t taken_ = 0;
};

}  // namespace

std::unique_ptr<PayloadBytes> MakeMemoryPayload(Claim& claim, uint64_t total_bytes) {
  return std::make_unique<MemoryPayload>(claim, total_bytes);
}

absl::StatusOr<std::unique_ptr<PayloadBytes>> MakeStoredPayload(
    Claim& claim, std::unique_ptr<PartialPayload> stored) {
  auto payload = std::make_unique<StoredPayload>(claim, std::move(stored));
  SPARSEAGG_RETURN_IF_ERROR(payload->TakeWhatIsThere());
  return payload;
}

}  // namespace sparseagg

#include "service/engine/ingest/payload_bytes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/host_vector.h"
#include "base/status.h"
#include "sparse/byte_chain.h"

namespace sparseagg {
namespace {

// The largest piece, so that there are few pieces and little unused memory.
constexpr uint64_t kPieceBytesMax = uint64_t{4} << 20;

// An update is staged when 1/8 of it has arrived, so that a client that sends little holds little
// memory.
constexpr uint64_t kShareToStage = 8;

// A buffer that grows piece by piece, or as one piece: addresses for all bytes are reserved then,
// and memory is taken as it is written to.
class GrowingBuffer {
 public:
  GrowingBuffer(Claim& claim, uint64_t total_bytes, bool in_one_piece)
      : claim_(claim), total_bytes_(total_bytes), in_one_piece_(in_one_piece) {}

  uint64_t bytes() const { return bytes_; }

  // Allocates room for `more` bytes, or returns an error.
  absl::Status Reserve(uint64_t more) {
    while (capacity_ - bytes_ < more) SPARSEAGG_RETURN_IF_ERROR(AddPiece(more));
    return absl::OkStatus();
  }

  // REQUIRES: Reserve() has made room for `data`.
  void Append(std::string_view data) {
    while (!data.empty()) {
      if (pieces_[filling_].size == pieces_[filling_].capacity) ++filling_;
      Piece& piece = pieces_[filling_];
      const uint64_t part = std::min<uint64_t>(data.size(), piece.capacity - piece.size);
      std::memcpy(piece.data.get() + piece.size, data.data(), part);
      piece.size += part;
      bytes_ += part;
      data.remove_prefix(part);
    }
  }

  std::vector<std::string_view> Pieces() const {
    std::vector<std::string_view> pieces;
    for (const Piece& piece : pieces_) pieces.emplace_back(piece.data.get(), piece.size);
    return pieces;
  }

  void Free() {
    pieces_.clear();
    claim_.Release(std::exchange(capacity_, 0));
  }

 private:
  struct Piece {
    std::unique_ptr<char, decltype(&FreeHost)> data;
    uint64_t capacity = 0;
    uint64_t size = 0;
  };

  // The piece is as large as the chunk or as all earlier pieces, whichever is more.
  absl::Status AddPiece(uint64_t chunk_bytes) {
    const uint64_t wanted = std::min(std::max(chunk_bytes, capacity_), kPieceBytesMax);
    const uint64_t capacity = std::min(wanted, total_bytes_ - capacity_);
    SPARSEAGG_RETURN_IF_ERROR(claim_.Take(capacity));
    if (in_one_piece_ && !pieces_.empty()) {
      pieces_.front().capacity += capacity;
      capacity_ += capacity;
      return absl::OkStatus();
    }
    void* const memory = AllocateHost(in_one_piece_ ? total_bytes_ : capacity);
    if (memory == nullptr) {
      claim_.Release(capacity);
      constexpr uint64_t kRetryAfterMs = 200;
      return WithRetryAfter(
          MakeError(absl::StatusCode::kResourceExhausted, "STAGING_FULL",
                    absl::StrCat("no memory for ", capacity, " bytes of an update; try again")),
          kRetryAfterMs);
    }
    pieces_.push_back({{static_cast<char*>(memory), &FreeHost}, capacity, 0});
    capacity_ += capacity;
    return absl::OkStatus();
  }

  Claim& claim_;
  const uint64_t total_bytes_;
  const bool in_one_piece_;
  std::vector<Piece> pieces_;
  size_t filling_ = 0;     // index in pieces_; earlier pieces are full
  uint64_t capacity_ = 0;  // of all pieces
  uint64_t bytes_ = 0;
};

class MemoryPayload : public PayloadBytes {
 public:
  MemoryPayload(Claim& claim, uint64_t total_bytes, StageOnArrival on_arrival)
      : claim_(claim),
        total_bytes_(total_bytes),
        on_arrival_(std::move(on_arrival)),
        collected_(claim, total_bytes, on_arrival_.stage == nullptr) {}

  uint64_t bytes() const override { return bytes_; }

  absl::Status Append(ByteChain data) override {
    const uint64_t more = TotalBytes(data);
    if (on_arrival_.at_once) {
      SPARSEAGG_RETURN_IF_ERROR(StageAtOnce());
    } else if ((bytes_ + more) * kShareToStage >= total_bytes_) {
      Stage();
    }
    if (arrived_ == nullptr) SPARSEAGG_RETURN_IF_ERROR(collected_.Reserve(more));
    for (const std::string_view piece : data) {
      arrived_ != nullptr ? arrived_->Append(piece) : collected_.Append(piece);
    }
    bytes_ += more;
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string_view>> Pieces() override { return collected_.Pieces(); }
  ArrivingUpdate* arrived() override { return arrived_.get(); }
  Reservation* staging() override { return &staging_; }

 private:
  // Tries to stage the update, once. If it fails, the bytes are collected.
  void Stage() {
    if (!on_arrival_.stage) return;
    const auto stage = std::exchange(on_arrival_.stage, nullptr);
    absl::StatusOr<Reservation> staging = claim_.TakeIfPlenty(on_arrival_.bytes);
    if (!staging.ok()) return;
    auto arriving = stage();
    if (!arriving.ok()) return;
    claim_.Settle();  // only now: if staging fails, the whole announced need remains
    arrived_ = *std::move(arriving);
    staging_ = *std::move(staging);
    for (const std::string_view piece : collected_.Pieces()) arrived_->Append(piece);
    collected_.Free();
  }

  // Stages the update before its first byte.
  absl::Status StageAtOnce() {
    if (arrived_ != nullptr) return absl::OkStatus();
    SPARSEAGG_ASSIGN_OR_RETURN(Reservation staging, claim_.TakeReservation(on_arrival_.bytes));
    SPARSEAGG_ASSIGN_OR_RETURN(arrived_, on_arrival_.stage());
    claim_.Settle();
    staging_ = std::move(staging);
    return absl::OkStatus();
  }

  Claim& claim_;
  const uint64_t total_bytes_;
  StageOnArrival on_arrival_;
  GrowingBuffer collected_;
  std::unique_ptr<ArrivingUpdate> arrived_;
  Reservation staging_;
  uint64_t bytes_ = 0;
};

class StoredPayload : public PayloadBytes {
 public:
  StoredPayload(Claim& claim, std::unique_ptr<UploadPayload> stored)
      : claim_(claim), stored_(std::move(stored)) {}

  uint64_t bytes() const override { return stored_->bytes(); }

  absl::Status Append(ByteChain data) override {
    const uint64_t end = stored_->bytes() + TotalBytes(data);
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
  UploadPayload* stored() override { return stored_.get(); }
  void Discard() override { stored_->Discard(); }

  absl::Status TakeStoredBytes() {
    taken_ = stored_->bytes();
    return claim_.Take(taken_);
  }

 private:
  Claim& claim_;
  const std::unique_ptr<UploadPayload> stored_;
  uint64_t taken_ = 0;
};

}  // namespace

std::unique_ptr<PayloadBytes> MakeMemoryPayload(Claim& claim, uint64_t total_bytes,
                                                StageOnArrival on_arrival) {
  return std::make_unique<MemoryPayload>(claim, total_bytes, std::move(on_arrival));
}

absl::StatusOr<std::unique_ptr<PayloadBytes>> MakeStoredPayload(
    Claim& claim, std::unique_ptr<UploadPayload> stored) {
  auto payload = std::make_unique<StoredPayload>(claim, std::move(stored));
  SPARSEAGG_RETURN_IF_ERROR(payload->TakeStoredBytes());
  return payload;
}

}  // namespace sparseagg

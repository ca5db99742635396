#include "service/engine/upload/upload.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/ingest/update.h"
#include "service/store/checksums/crc32c.h"
#include "sparse/byte_chain.h"

namespace sparseagg {
namespace {

auto Fields(const EncodedHeader& h) {
  return std::tie(h.name, h.encoding, h.value_type, h.dense_shape, h.sparse_dim, h.index_type,
                  h.nnz, h.indices_bytes, h.values_bytes, h.values_encoding);
}

absl::Status OffsetMismatch(uint64_t offset, uint64_t committed) {
  return MakeError(absl::StatusCode::kInvalidArgument, "OFFSET_MISMATCH",
                   absl::StrCat("the chunk starts at offset ", offset, ", expected ", committed));
}

absl::Status DamagedChunk(uint64_t offset, uint32_t found, uint32_t stated) {
  return MakeError(absl::StatusCode::kDataLoss, "CHECKSUM_MISMATCH",
                   absl::StrCat("the chunk at offset ", offset, " was damaged on its way: CRC-32C ",
                                absl::Hex(found, absl::kZeroPad8), " is not ",
                                absl::Hex(stated, absl::kZeroPad8), "; send it again"));
}

// Returns the memory of an update that is decoded on arrival.
uint64_t StagedOnArrival(const UploadArgs& args) {
  return args.staged_bytes + ArrivingUpdate::KeptBytes(args.tensors);
}

}  // namespace

uint64_t HeaderBytes(std::span<const EncodedHeader> headers) {
  uint64_t bytes = headers.size() * sizeof(EncodedHeader);
  for (const EncodedHeader& header : headers) {
    bytes += header.name.size() + header.encoding.size() + header.values_encoding.size() +
             header.dense_shape.size() * sizeof(int64_t);
  }
  return bytes;
}

absl::Status AnnounceUpload(Admission& memory, UploadArgs& args) {
  const uint64_t header_bytes = HeaderBytes(args.tensors);
  const uint64_t bytes = args.stored == nullptr ? args.total_bytes : 0;
  auto claim = memory.Announce(header_bytes + bytes + args.staged_bytes);
  const bool never = !claim.ok() && RetryAfterMs(claim.status()) == 0;
  if (never && args.stored == nullptr && args.stage) {
    claim = memory.Announce(header_bytes + StagedOnArrival(args));
    args.stage_at_once = true;
  }
  SPARSEAGG_ASSIGN_OR_RETURN(args.memory, std::move(claim));
  return args.memory.Take(header_bytes);
}

// The handle of one stream.
class ChunkedUpload::Writer : public Upload {
 public:
  Writer(std::shared_ptr<ChunkedUpload> upload, uint64_t writer)
      : upload_(std::move(upload)), writer_(writer) {}

  uint64_t committed_offset() const override { return upload_->committed(); }
  uint64_t total_bytes() const override { return upload_->args_.total_bytes; }
  bool waits_for_disk() const override { return upload_->on_disk_; }
  absl::Status Append(uint64_t offset, ByteChain data, std::optional<uint32_t> crc32c) override {
    return upload_->Append(writer_, offset, data, crc32c);
  }
  bool arrived() const override { return upload_->arrived(); }
  absl::StatusOr<Receipt> Finish() override { return upload_->Finish(writer_); }
  void Refuse(const absl::Status& why) override { upload_->Refuse(writer_, why); }

 private:
  const std::shared_ptr<ChunkedUpload> upload_;
  const uint64_t writer_;
};

absl::StatusOr<std::shared_ptr<ChunkedUpload>> ChunkedUpload::Make(UploadArgs args) {
  std::shared_ptr<ChunkedUpload> upload(new ChunkedUpload(std::move(args)));
  UploadArgs& kept = upload->args_;
  if (kept.stored == nullptr) {
    StageOnArrival on_arrival;
    if (kept.stage) {
      on_arrival.bytes = StagedOnArrival(kept);
      on_arrival.at_once = kept.stage_at_once;
      on_arrival.stage = [&kept] { return kept.stage(kept.tensors); };
    }
    upload->bytes_ = MakeMemoryPayload(kept.memory, kept.total_bytes, std::move(on_arrival));
  } else {
    SPARSEAGG_ASSIGN_OR_RETURN(upload->bytes_,
                               MakeStoredPayload(kept.disk, std::move(kept.stored)));
    upload->on_disk_ = true;
  }
  upload->committed_ = upload->bytes_->bytes();
  return upload;
}

ChunkedUpload::ChunkedUpload(UploadArgs args) : args_(std::move(args)), last_used_(args_.now()) {}

bool ChunkedUpload::SameAs(const UpdateHeader& header,
                           std::span<const EncodedHeader> tensors) const {
  std::lock_guard lock(mutex_);
  return header.weight == args_.header.weight &&
         std::equal(tensors.begin(), tensors.end(), args_.tensors.begin(), args_.tensors.end(),
                    [](const auto& a, const auto& b) { return Fields(a) == Fields(b); });
}

absl::StatusOr<std::unique_ptr<Upload>> ChunkedUpload::NewWriter() {
  const auto now = args_.now();
  std::unique_lock lock(mutex_);
  appended_.wait(lock, [this] { return !appending_; });
  if (phase_ == Phase::kFinishing) {
    // About the time to validate and store a large update.
    constexpr uint64_t kRetryAfterMs = 500;
    return WithRetryAfter(
        MakeError(absl::StatusCode::kAborted, "UPLOAD_BUSY",
                  absl::StrCat("update \"", args_.header.update_id, "\" is complete and being ",
                               "counted for another stream; try again for its receipt")),
        kRetryAfterMs);
  }
  if (phase_ == Phase::kClosed) return closed_because_;
  last_used_ = now;
  return std::make_unique<Writer>(shared_from_this(), ++writer_);
}

void ChunkedUpload::Close(const absl::Status& why) {
  std::lock_guard lock(mutex_);
  if (phase_ == Phase::kReceiving) CloseLocked(why);
}

bool ChunkedUpload::CloseIfUnusedSince(std::chrono::steady_clock::time_point time,
                                       const std::function<absl::Status()>& why) {
  std::lock_guard lock(mutex_);
  if (phase_ == Phase::kReceiving && last_used_ < time) CloseLocked(why());
  return phase_ == Phase::kClosed;
}

void ChunkedUpload::Refuse(uint64_t writer, const absl::Status& why) {
  // Held for check and close, so that a stream that resumes the upload keeps its offset.
  std::lock_guard lock(mutex_);
  if (phase_ == Phase::kReceiving && CheckWriterLocked(writer).ok()) CloseLocked(why);
}

void ChunkedUpload::CloseLocked(const absl::Status& why) {
  phase_ = Phase::kClosed;
  closed_because_ = why;
  if (!appending_) FreeLocked();
}

void ChunkedUpload::FreeLocked() {
  bytes_->Discard();
  bytes_.reset();
  args_.tensors = {};
  args_.memory = Claim();
  args_.disk = Claim();
  // These own the round's accumulators, and a stream may hold this object for long.
  args_.stage = nullptr;
  args_.commit = nullptr;
}

bool ChunkedUpload::closed() const {
  std::lock_guard lock(mutex_);
  return phase_ == Phase::kClosed;
}

uint64_t ChunkedUpload::committed() const {
  std::lock_guard lock(mutex_);
  return committed_;
}

absl::Status ChunkedUpload::CheckWriterLocked(uint64_t writer) const {
  if (phase_ == Phase::kClosed) return closed_because_;
  if (writer == writer_) return absl::OkStatus();
  return MakeError(absl::StatusCode::kAborted, "UPLOAD_TAKEN_OVER",
                   absl::StrCat("another stream has resumed update \"", args_.header.update_id,
                                "\"; resume it again to continue here"));
}

bool ChunkedUpload::arrived() const {
  std::lock_guard lock(mutex_);
  return phase_ == Phase::kReceiving && !appending_ && bytes_->arrived() != nullptr;
}

absl::Status ChunkedUpload::Append(uint64_t writer, uint64_t offset, ByteChain data,
                                   std::optional<uint32_t> crc32c) {
  const uint64_t size = TotalBytes(data);
  if (crc32c.has_value()) {
    uint32_t found = 0;
    for (const std::string_view piece : data) found = Crc32c(piece, found);
    if (found != *crc32c) return DamagedChunk(offset, found, *crc32c);
  }
  const auto now = args_.now();
  std::unique_lock lock(mutex_);
  SPARSEAGG_RETURN_IF_ERROR(CheckWriterLocked(writer));
  if (offset != committed_ || appending_) return OffsetMismatch(offset, committed_);
  if (size > args_.total_bytes - committed_) {
    return MakeError(absl::StatusCode::kInvalidArgument, "UPLOAD_TOO_LONG",
                     absl::StrCat("the chunk ends at byte ", offset + size,
                                  ", but the headers state ", args_.total_bytes));
  }
  appending_ = true;
  lock.unlock();
  const absl::Status appended = bytes_->Append(data);
  lock.lock();
  appending_ = false;
  appended_.notify_all();
  if (phase_ == Phase::kClosed) {
    FreeLocked();
    return closed_because_;
  }
  if (absl::IsAborted(appended)) CloseLocked(appended);  // the store has lost the received bytes
  SPARSEAGG_RETURN_IF_ERROR(appended);
  committed_ += size;
  last_used_ = now;
  return absl::OkStatus();
}

absl::StatusOr<Receipt> ChunkedUpload::Finish(uint64_t writer) {
  {
    std::lock_guard lock(mutex_);
    SPARSEAGG_RETURN_IF_ERROR(CheckWriterLocked(writer));
    if (phase_ == Phase::kFinishing || appending_ || committed_ != args_.total_bytes) {
      return MakeError(
          absl::StatusCode::kFailedPrecondition, "UPLOAD_INCOMPLETE",
          absl::StrCat("the update has ", committed_, " of ", args_.total_bytes, " bytes"));
    }
    phase_ = Phase::kFinishing;
  }
  absl::StatusOr<Receipt> receipt = CommitBytes();
  std::lock_guard lock(mutex_);
  const absl::StatusCode code = receipt.status().code();
  const bool later =
      code == absl::StatusCode::kUnavailable || (code == absl::StatusCode::kResourceExhausted &&
                                                 ErrorReason(receipt.status()) != "ROUND_FULL");
  if (later) {
    phase_ = Phase::kReceiving;  // the bytes are kept, so that a retry need not send them again
  } else {
    CloseLocked(
        MakeError(absl::StatusCode::kFailedPrecondition, "UPLOAD_ENDED",
                  absl::StrCat("update \"", args_.header.update_id,
                               "\" was already answered; begin it again to get the receipt")));
  }
  return receipt;
}

absl::StatusOr<Receipt> ChunkedUpload::CommitBytes() {
  if (ArrivingUpdate* arrived = bytes_->arrived(); arrived != nullptr) {
    std::vector<EncodedTensor> tensors;
    for (const EncodedHeader& header : args_.tensors) tensors.push_back({.header = header});
    return args_.commit(args_.header, {.tensors = tensors, .arrived = arrived}, *bytes_->staging());
  }
  SPARSEAGG_ASSIGN_OR_RETURN(Reservation staging, args_.memory.TakeReservation(args_.staged_bytes));
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<std::string_view> bytes, bytes_->Pieces());
  const SplitPayload payload(args_.tensors, bytes);
  return args_.commit(args_.header, {.tensors = payload.tensors(), .stored = bytes_->stored()},
                      staging);
}

}  // namespace sparseagg

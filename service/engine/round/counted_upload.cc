#include "service/engine/round/counted_upload.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {
namespace {

// An upload that has received everything and returns the first receipt.
class CountedUpload : public Upload {
 public:
  CountedUpload(std::shared_ptr<Round> round, UpdateRecord record, uint64_t total_bytes)
      : round_(std::move(round)), record_(std::move(record)), total_bytes_(total_bytes) {}

  uint64_t committed_offset() const override { return total_bytes_; }
  uint64_t total_bytes() const override { return total_bytes_; }
  absl::Status Append(uint64_t offset, ByteChain data,
                      std::optional<uint32_t> /*crc32c*/) override {
    const bool empty =
        std::all_of(data.begin(), data.end(), [](auto piece) { return piece.empty(); });
    if (empty && offset == total_bytes_) return absl::OkStatus();
    return MakeError(absl::StatusCode::kInvalidArgument, "OFFSET_MISMATCH",
                     absl::StrCat("the update was already counted; continue from its end, offset ",
                                  total_bytes_, ", to get the receipt"));
  }
  absl::StatusOr<Receipt> Finish() override { return round_->AnswerResend(record_); }
  void Refuse(const absl::Status& /*why*/) override {}

 private:
  const std::shared_ptr<Round> round_;
  const UpdateRecord record_;
  const uint64_t total_bytes_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Upload>> ResumeCounted(std::shared_ptr<Round> round,
                                                      const UpdateRecord& record,
                                                      const UpdateHeader& header,
                                                      uint64_t total_bytes) {
  if (record.update_id != header.update_id) {
    return MakeError(
        absl::StatusCode::kAlreadyExists, "CONTRIBUTOR_ALREADY_COUNTED",
        absl::StrCat("contributor \"", header.contributor, "\" was already counted with update \"",
                     record.update_id, "\"; a contributor has one update in each round"));
  }
  if (record.weight != header.weight) {
    return MakeError(absl::StatusCode::kInvalidArgument, "DIGEST_CONFLICT",
                     absl::StrCat("update \"", header.update_id, "\" was counted with weight ",
                                  record.weight, "; a resend must have the same weight"));
  }
  return std::make_shared<CountedUpload>(std::move(round), record, total_bytes);
}

}  // namespace sparseagg

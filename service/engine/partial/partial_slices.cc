#include "service/engine/partial/partial_slices.h"

#include <utility>
#include <vector>

#include "base/status.h"
#include "service/engine/partial/round_partial.h"
#include "service/store/checksums/digest.h"
#include "sparse/partials/exact_number.h"
#include "sparse/partials/little_endian.h"
#include "sparse/partials/slices.h"

namespace sparseagg {
namespace {

constexpr size_t kMagicBytes = 8;

// Takes what layout round_partial.h describes. Each function returns false where bytes are missing.
bool Skip(std::string_view& bytes, uint64_t count) {
  if (bytes.size() < count) return false;
  bytes.remove_prefix(count);
  return true;
}

template <class Length>
bool SkipText(std::string_view& bytes) {
  Length length = 0;
  return TakeNumber(bytes, length) && Skip(bytes, length);
}

struct SkippedHead {
  uint32_t tensors = 0;
  uint64_t contributors = 0;
  uint8_t named = 0;
};

bool TakeHead(std::string_view& bytes, SkippedHead& head) {
  uint32_t version = 0;
  uint8_t digits = 0;
  return Skip(bytes, kMagicBytes) && TakeNumber(bytes, version) && version == kPartialVersion &&
         TakeNumber(bytes, head.tensors) && TakeNumber(bytes, head.contributors) &&
         TakeNumber(bytes, head.named) && TakeNumber(bytes, digits) &&
         Skip(bytes, uint64_t{digits} * kDigitBytes);
}

// Takes the head of a tensor up to its number of slices.
bool TakeTensor(std::string_view& bytes, uint64_t& slices) {
  uint8_t rank = 0;
  return SkipText<uint16_t>(bytes) && SkipText<uint8_t>(bytes) && Skip(bytes, 2) &&
         TakeNumber(bytes, rank) && Skip(bytes, 1 + uint64_t{rank} * sizeof(int64_t)) &&
         Skip(bytes, sizeof(uint64_t)) && TakeNumber(bytes, slices);
}

bool TakeCovered(std::string_view& bytes, const SkippedHead& head) {
  if (head.named == 0) return true;
  for (uint64_t i = 0; i < head.contributors; ++i) {
    if (!SkipText<uint8_t>(bytes)) return false;  // the contributor
    if (!SkipText<uint8_t>(bytes)) return false;  // the update_id
    if (!Skip(bytes, sizeof(float) + kDigestBytes)) return false;
  }
  return true;
}

bool TakeSlice(std::string_view& bytes, uint64_t& first_row) {
  uint64_t number = 0;
  uint64_t size = 0;
  uint32_t rows = 0;
  if (!TakeNumber(bytes, number) || !TakeNumber(bytes, rows) || !TakeNumber(bytes, size)) {
    return false;
  }
  first_row = number * kSliceRows;
  return Skip(bytes, size);
}

absl::Status Damaged() {
  return MakeError(absl::StatusCode::kDataLoss, "STORE_CORRUPT",
                   "the partial aggregate of the round is damaged");
}

// What is between `begin` and the rest of the same bytes.
std::string_view Before(std::string_view begin, std::string_view rest) {
  return begin.substr(0, begin.size() - rest.size());
}

// The slices of one tensor that are in the range, of all that the bytes begin with.
struct Selected {
  std::string_view slices;
  std::vector<std::string_view> each;
};

bool Select(std::string_view& bytes, uint64_t slices, uint32_t tensor, const RowRange& rows,
            Selected& selected) {
  for (uint64_t i = 0; i < slices; ++i) {
    const std::string_view begin = bytes;
    uint64_t first_row = 0;
    if (!TakeSlice(bytes, first_row)) return false;
    const RowPosition position{tensor, first_row};
    if (position < rows.first || position >= rows.end) continue;
    selected.each.push_back(Before(begin, bytes));
    // They are adjacent, over the ends of tensors too.
    const char* const first = selected.slices.empty() ? begin.data() : selected.slices.data();
    selected.slices = {first, static_cast<size_t>(bytes.data() - first)};
  }
  return true;
}

}  // namespace

std::string_view PartialSlices::Piece(uint64_t offset, uint64_t bytes) const {
  for (const std::string_view piece :
       {std::string_view(head), covered, slices, std::string_view(digest)}) {
    if (offset < piece.size()) return piece.substr(offset, bytes);
    offset -= piece.size();
  }
  return {};
}

absl::StatusOr<PartialSlices> CutPartial(std::string_view partial, const RowRange& rows) {
  std::string_view rest = partial;
  if (rest.size() < kDigestBytes) return Damaged();
  rest.remove_suffix(kDigestBytes);
  const std::string_view all = rest;
  SkippedHead head;
  if (!TakeHead(rest, head)) return Damaged();
  PartialSlices cut;
  std::vector<uint64_t> counts;         // [tensors], of slices
  std::vector<std::string_view> heads;  // [tensors], without these counts
  cut.head = Before(all, rest);
  for (uint32_t i = 0; i < head.tensors; ++i) {
    const std::string_view begin = rest;
    if (!TakeTensor(rest, counts.emplace_back())) return Damaged();
    heads.push_back(Before(begin, rest).substr(0, begin.size() - rest.size() - sizeof(uint64_t)));
  }
  const std::string_view covered = rest;
  if (!TakeCovered(rest, head)) return Damaged();
  cut.covered = Before(covered, rest);
  Selected selected;
  for (uint32_t i = 0; i < head.tensors; ++i) {
    const size_t before = selected.each.size();
    if (!Select(rest, counts[i], i, rows, selected)) return Damaged();
    cut.head += heads[i];
    AppendNumber(uint64_t{selected.each.size() - before}, cut.head);
  }
  if (!rest.empty()) return Damaged();
  cut.slices = selected.slices;
  Sha256 digest;
  digest.Bytes(cut.head).Bytes(Sha256Of(cut.covered));
  for (const std::string_view slice : selected.each) digest.Bytes(Sha256Of(slice));
  cut.digest = digest.Finish();
  return cut;
}

}  // namespace sparseagg

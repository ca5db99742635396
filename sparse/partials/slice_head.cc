#include "sparse/partials/slice_head.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sparse/partials/little_endian.h"
#include "sparse/partials/slices.h"

namespace sparseagg {
namespace {

// Takes the first three fields of a slice.
bool TakeFields(std::string_view& bytes, SliceHead& head, uint64_t& body_bytes) {
  return TakeNumber(bytes, head.number) && TakeNumber(bytes, head.rows) &&
         TakeNumber(bytes, body_bytes);
}

absl::Status Check(const ReduceSpec& spec, const SlotKinds& kinds, const SliceHead& head,
                   uint64_t body_bytes, uint64_t bytes_left) {
  const auto invalid = [&](std::string_view what) { return InvalidSlice(spec, head.number, what); };
  if (body_bytes > bytes_left) {
    return invalid(absl::StrCat("states ", body_bytes, " bytes, but ", bytes_left, " are left"));
  }
  if (head.number > (spec.layout.num_rows - 1) / kSliceRows) {
    return invalid(absl::StrCat("is beyond the ", spec.layout.num_rows, " rows"));
  }
  if (head.rows == 0 || head.rows > kSliceRows) {
    return invalid(absl::StrCat("has ", head.rows, " rows, not 1 to ", kSliceRows));
  }
  // Each block has at least two bytes, so a slice cannot claim much more memory than it sends.
  const uint64_t blocks = (head.rows * kinds.values + kBlockSlots - 1) / kBlockSlots;
  if (body_bytes / sizeof(uint16_t) < head.rows || body_bytes / sizeof(uint16_t) < blocks) {
    return invalid(
        absl::StrCat("has ", body_bytes, " bytes, too few for its ", head.rows, " rows"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<SliceHead>> TakeSliceHeads(const ReduceSpec& spec,
                                                      const SlotKinds& kinds, uint64_t slices,
                                                      std::string_view& bytes) {
  std::vector<SliceHead> heads;
  size_t rows = 0;
  for (uint64_t i = 0; i < slices; ++i) {
    SliceHead head;
    uint64_t body_bytes = 0;
    if (!TakeFields(bytes, head, body_bytes)) {
      return InvalidSlice(spec, i, "is missing: the bytes end");
    }
    SPARSEAGG_RETURN_IF_ERROR(Check(spec, kinds, head, body_bytes, bytes.size()));
    if (!heads.empty() && heads.back().number >= head.number) {
      return InvalidSlice(spec, head.number, "does not follow the slice before it");
    }
    head.body = bytes.substr(0, body_bytes);
    bytes.remove_prefix(body_bytes);
    head.first = rows;
    rows += head.rows;
    heads.push_back(head);
  }
  return heads;
}

absl::Status InvalidSlice(const ReduceSpec& spec, uint64_t slice, std::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_PARTIAL",
                   absl::StrCat("tensor \"", spec.name, "\": slice ", slice,
                                " of the partial aggregate ", std::string(what)));
}

std::string_view FirstSlice(std::string_view bytes) {
  std::string_view rest = bytes;
  SliceHead head;
  uint64_t body_bytes = 0;
  if (!TakeFields(rest, head, body_bytes) || body_bytes > rest.size()) return {};
  return bytes.substr(0, bytes.size() - rest.size() + body_bytes);
}

}  // namespace sparseagg

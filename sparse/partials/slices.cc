#include "sparse/partials/slices.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sparse/ops/all.h"
#include "sparse/partials/blocks.h"
#include "sparse/partials/little_endian.h"
#include "sparse/slot_math.h"
#include "sparse/window.h"
#include "sparse/window_choice.h"

namespace sparseagg {
namespace {

// A number above this many bits of the window goes to the side table, so that 2^18 states can be
// merged before their slots are full.
constexpr int kSlotBits = kWindowValueBits + 20;
// Number of slots that are read between two calls of `reserve`.
constexpr uint64_t kSlotsPerStep = uint64_t{1} << 16;
// The window is chosen from the first blocks of this many slices.
constexpr uint64_t kSampledSlices = 64;
constexpr uint64_t kSampledSlots = 4 * kBlockSlots;

// What the slots of an operator are.
struct SlotKinds {
  uint64_t values = 0;  // value slots of a row
  bool row_slot = false;
  bool counts = false;   // the row slot is a number of contributors
  bool extreme = false;  // min, max
  BlockKind value_blocks;
};

SlotKinds KindsOf(const ReduceSpec& spec) {
  SlotKinds kinds;
  AllOps::With(spec.op, [&](auto op) {
    using Op = decltype(op);
    kinds.values = Op::kValues == ValueSlots::kNone ? 0 : spec.layout.row_width;
    kinds.row_slot = Op::kRowSlot != RowSlot::kNone;
    kinds.counts = Op::kRowSlot == RowSlot::kOne;
    kinds.extreme = kNeedsUniqueRows<Op>;
  });
  kinds.value_blocks = {.raw = spec.layout.value_type, .only_raw = kinds.extreme};
  return kinds;
}

ExactNumber ExactDouble(double value) {
  if (!IsFiniteBits(value)) return Infinite(value < 0);
  const Scaled parts = Decompose(value);
  return MakeExact(parts.significand, parts.exponent);
}

// The number that an order key stands for, and the reverse.
ExactNumber FromKey(Int128 key, bool floating) {
  return floating ? ExactDouble(FromOrderKey(static_cast<int64_t>(key))) : MakeExact(key, 0);
}
Int128 ToKey(const ExactNumber& number, bool floating) {
  if (!floating) return number.significand * (Int128{1} << number.exponent);
  return OrderKey(RoundScaled(number.significand, number.exponent, kFormatF64));
}

// Writes the blocks of one slice.
class SliceWriter {
 public:
  SliceWriter(const Partial& partial, const SlotKinds& kinds)
      : partial_(partial), kinds_(kinds), stride_(kinds.values + (kinds.row_slot ? 1 : 0)) {}

  // REQUIRES: rows [begin, end) of the partial are those of one slice, after those of earlier
  // calls.
  void Write(size_t begin, size_t end, std::string& body) {
    for (size_t i = begin; i < end; ++i) {
      AppendNumber(static_cast<uint16_t>(partial_.rows[i] % kSliceRows), body);
    }
    for (size_t i = begin; i < end; ++i) {
      for (uint64_t c = 0; c < kinds_.values; ++c) {
        Add(NumberOf(i, c, values_side_), kinds_.value_blocks, body);
      }
    }
    EndBlock(kinds_.value_blocks, body);
    if (!kinds_.row_slot) return;
    for (size_t i = begin; i < end; ++i) {
      Add(NumberOf(i, kinds_.values, row_slots_side_), {}, body);
    }
    EndBlock({}, body);
  }

 private:
  ExactNumber NumberOf(size_t i, uint64_t column, size_t& side) const {
    const Int128 slot = partial_.slots[i * stride_ + column];
    if (kinds_.extreme) return FromKey(slot, IsFloating(partial_.spec.layout.value_type));
    const std::vector<SideEntry>& entries = partial_.side;
    const SideEntry place{partial_.rows[i], static_cast<uint32_t>(column), 0, 0};
    while (side < entries.size() && SlotLess(entries[side], place)) ++side;
    if (side == entries.size() || SlotLess(place, entries[side])) {
      return MakeExact(slot, partial_.lsb);
    }
    // Trailing zeros come off first: a window may begin below the last bit of a wide integer.
    WideInteger sum = ToWideInteger(MakeExact(slot, partial_.lsb));
    for (; side < entries.size() && !SlotLess(place, entries[side]); ++side) {
      sum.AddScaled(entries[side].significand, entries[side].exponent);
    }
    return MakeExact(sum);
  }

  void Add(ExactNumber number, const BlockKind& kind, std::string& body) {
    block_[filled_++] = std::move(number);
    if (filled_ == kBlockSlots) EndBlock(kind, body);
  }

  void EndBlock(const BlockKind& kind, std::string& body) {
    if (filled_ == 0) return;
    WriteBlock(std::span(block_.data(), filled_), kind, body);
    filled_ = 0;
  }

  const Partial& partial_;
  const SlotKinds kinds_;
  const uint64_t stride_;
  std::array<ExactNumber, kBlockSlots> block_;
  size_t filled_ = 0;
  size_t values_side_ = 0;  // positions in the side table
  size_t row_slots_side_ = 0;
};

struct SliceHead {
  uint64_t number = 0;
  uint32_t rows = 0;
  std::string_view body;
};

class TensorReader {
 public:
  TensorReader(const SlicesToRead& what, const std::function<absl::Status(uint64_t bytes)>& reserve)
      : kinds_(KindsOf(what.spec)),
        stride_(kinds_.values + (kinds_.row_slot ? 1 : 0)),
        row_slot_max_(kinds_.counts ? MakeExact(Int128{what.contributors}, 0)
                                    : MakeExact(what.total_weight)),
        reserve_(reserve) {
    partial_.spec = what.spec;
    partial_.contributors = what.contributors;
    partial_.total_weight = what.total_weight;
  }

  absl::StatusOr<Partial> Read(uint64_t slices, std::string_view& bytes, const OnSlice& on_slice) {
    if (ChoosesWindow()) SPARSEAGG_RETURN_IF_ERROR(ChooseWindowFor(slices, bytes));
    for (uint64_t i = 0; i < slices; ++i) {
      const std::string_view begin = bytes;
      SPARSEAGG_ASSIGN_OR_RETURN(const SliceHead head, TakeHead(bytes));
      SPARSEAGG_RETURN_IF_ERROR(ReadBody(head));
      on_slice(begin.substr(0, begin.size() - bytes.size()));
    }
    SortSide(partial_.side);
    return std::move(partial_);
  }

 private:
  bool ChoosesWindow() const {
    return !kinds_.extreme && kinds_.values > 0 && IsFloating(partial_.spec.layout.value_type);
  }

  absl::Status Invalid(std::string_view what) const {
    return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_PARTIAL",
                     absl::StrCat("tensor \"", partial_.spec.name, "\": slice ", slice_,
                                  " of the partial aggregate ", std::string(what)));
  }

  absl::StatusOr<SliceHead> TakeHead(std::string_view& bytes) {
    SliceHead head;
    uint64_t body_bytes = 0;
    if (!TakeNumber(bytes, head.number) || !TakeNumber(bytes, head.rows) ||
        !TakeNumber(bytes, body_bytes)) {
      return Invalid("is missing: the bytes end");
    }
    slice_ = head.number;
    if (body_bytes > bytes.size()) {
      return Invalid(
          absl::StrCat("states ", body_bytes, " bytes, but ", bytes.size(), " are left"));
    }
    if (head.number > (partial_.spec.layout.num_rows - 1) / kSliceRows) {
      return Invalid(absl::StrCat("is beyond the ", partial_.spec.layout.num_rows, " rows"));
    }
    if (head.rows == 0 || head.rows > kSliceRows) {
      return Invalid(absl::StrCat("has ", head.rows, " rows, not 1 to ", kSliceRows));
    }
    // Each block has at least two bytes, so a slice cannot claim much more memory than it sends.
    const uint64_t blocks = (head.rows * kinds_.values + kBlockSlots - 1) / kBlockSlots;
    if (body_bytes / sizeof(uint16_t) < head.rows || body_bytes / sizeof(uint16_t) < blocks) {
      return Invalid(
          absl::StrCat("has ", body_bytes, " bytes, too few for its ", head.rows, " rows"));
    }
    head.body = bytes.substr(0, body_bytes);
    bytes.remove_prefix(body_bytes);
    return head;
  }

  // Chooses the window from the first numbers of some slices.
  absl::Status ChooseWindowFor(uint64_t slices, std::string_view bytes) {
    std::vector<double> samples;
    const uint64_t step = slices / kSampledSlices + 1;
    for (uint64_t i = 0; i < slices; ++i) {
      SPARSEAGG_ASSIGN_OR_RETURN(const SliceHead head, TakeHead(bytes));
      if (i % step != 0) continue;
      std::string_view body = head.body.substr(head.rows * sizeof(uint16_t));
      uint64_t left = std::min(head.rows * kinds_.values, kSampledSlots);
      left = left > kBlockSlots ? left - left % kBlockSlots : head.rows * kinds_.values;
      for (; left > 0; left -= std::min<uint64_t>(left, kBlockSlots)) {
        const std::span<ExactNumber> numbers(block_.data(), std::min<uint64_t>(left, kBlockSlots));
        // The real reading names what is wrong.
        if (!ReadBlock(body, kinds_.value_blocks, numbers).ok()) break;
        for (const ExactNumber& number : numbers) {
          if (number.wide != nullptr) continue;
          samples.push_back(RoundScaled(number.significand, number.exponent, kFormatF64));
        }
      }
    }
    partial_.lsb = ChooseWindow(samples);
    return absl::OkStatus();
  }

  absl::Status ReadBody(const SliceHead& head) {
    if (!partial_.rows.empty() && partial_.rows.back() / kSliceRows >= head.number) {
      return Invalid("does not follow the slice before it");
    }
    const size_t first = partial_.rows.size();
    SPARSEAGG_RETURN_IF_ERROR(Reserve(head.rows * sizeof(uint64_t)));
    std::string_view body = head.body;
    SPARSEAGG_RETURN_IF_ERROR(ReadOffsets(head, body));
    uint64_t position = 0;
    for (uint64_t left = head.rows * kinds_.values; left > 0;) {
      const uint64_t count = std::min<uint64_t>(left, kBlockSlots);
      if (position % kSlotsPerStep == 0) {
        SPARSEAGG_RETURN_IF_ERROR(ReserveSlots(first, head, position));
      }
      SPARSEAGG_RETURN_IF_ERROR(ReadValues(body, first, position, count));
      position += count;
      left -= count;
    }
    if (kinds_.row_slot) SPARSEAGG_RETURN_IF_ERROR(ReadRowSlots(body, first, head.rows));
    if (body.empty()) return absl::OkStatus();
    return Invalid(absl::StrCat("has ", body.size(), " bytes after its last block"));
  }

  absl::Status ReadOffsets(const SliceHead& head, std::string_view& body) {
    for (uint32_t i = 0; i < head.rows; ++i) {
      uint16_t offset = 0;
      if (!TakeNumber(body, offset)) return Invalid("ends within its rows");
      const uint64_t row = head.number * kSliceRows + offset;
      if (i > 0 && row <= partial_.rows.back()) {
        return Invalid(
            absl::StrCat("has row ", row, " at position ", i, ", not above the row before it"));
      }
      if (row >= partial_.spec.layout.num_rows) {
        return Invalid(absl::StrCat("has row ", row, " at position ", i, ", not below ",
                                    partial_.spec.layout.num_rows, " rows"));
      }
      partial_.rows.push_back(row);
    }
    return absl::OkStatus();
  }

  // Makes room for the next slots of a slice. Those of a wide row come in steps, so that no more is
  // allocated than the bytes that were read justify.
  absl::Status ReserveSlots(size_t first, const SliceHead& head, uint64_t position) {
    const uint64_t rows_so_far = std::min<uint64_t>(
        head.rows, (position + kSlotsPerStep + kinds_.values - 1) / kinds_.values);
    const uint64_t slots = (first + rows_so_far) * stride_;
    if (slots <= partial_.slots.size()) return Reserve(0);
    SPARSEAGG_RETURN_IF_ERROR(Reserve((slots - partial_.slots.size()) * sizeof(Int128)));
    partial_.slots.resize(slots);
    return absl::OkStatus();
  }

  absl::Status Reserve(uint64_t more) { return reserve_(MemoryBytes(partial_) + more); }

  absl::Status ReadValues(std::string_view& body, size_t first, uint64_t position, uint64_t count) {
    const std::span<ExactNumber> numbers(block_.data(), count);
    SPARSEAGG_RETURN_IF_ERROR(Take(body, "block ", position, kinds_.value_blocks, numbers));
    for (uint64_t k = 0; k < count; ++k) {
      const uint64_t i = first + (position + k) / kinds_.values;
      SPARSEAGG_RETURN_IF_ERROR(Store(i, (position + k) % kinds_.values, numbers[k]));
    }
    return absl::OkStatus();
  }

  absl::Status ReadRowSlots(std::string_view& body, size_t first, uint32_t rows) {
    if (kinds_.values == 0) {
      SPARSEAGG_RETURN_IF_ERROR(Reserve(rows * sizeof(Int128)));
      partial_.slots.resize((first + rows) * stride_);
    }
    for (uint64_t position = 0; position < rows; position += kBlockSlots) {
      const uint64_t count = std::min<uint64_t>(rows - position, kBlockSlots);
      const std::span<ExactNumber> numbers(block_.data(), count);
      SPARSEAGG_RETURN_IF_ERROR(Take(body, "row block ", position, {}, numbers));
      for (uint64_t k = 0; k < count; ++k) {
        const uint64_t i = first + position + k;
        const ExactNumber& number = numbers[k];
        if (!IsRowSlot(number)) {
          return Invalid(absl::StrCat("has a ", kinds_.counts ? "count" : "weight", " at row ",
                                      partial_.rows[i], " that its contributors cannot have"));
        }
        SPARSEAGG_RETURN_IF_ERROR(Store(i, kinds_.values, number));
      }
    }
    return absl::OkStatus();
  }

  // Whether the number can be the number, or the weight, of some of the contributors.
  bool IsRowSlot(const ExactNumber& number) const {
    if (number.negative() || number.top > row_slot_max_.top) return false;
    if (kinds_.counts && (number.is_zero() || number.exponent < 0)) return false;
    if (number.top < row_slot_max_.top) return true;
    WideInteger rest = ToWideInteger(row_slot_max_);
    for (const BalancedDigit& digit : BalancedDigits(ToWideInteger(number))) {
      rest.AddScaled(-Int128{digit.digit}, WideInteger::kLastBit + 32 * digit.position);
    }
    return !rest.negative();
  }

  absl::Status Take(std::string_view& body, std::string_view what, uint64_t position,
                    const BlockKind& kind, std::span<ExactNumber> numbers) const {
    const absl::Status read = ReadBlock(body, kind, numbers);
    if (read.ok()) return read;
    return Invalid(absl::StrCat("is damaged: ", std::string(what), position / kBlockSlots, " ",
                                std::string(read.message())));
  }

  // Stores a number in slot (i, column): in the window, or else in the side table.
  absl::Status Store(uint64_t i, uint64_t column, const ExactNumber& number) {
    Int128& slot = partial_.slots[i * stride_ + column];
    const bool floating = IsFloating(partial_.spec.layout.value_type);
    if (kinds_.extreme) {
      slot = ToKey(number, floating);
      partial_.addends = std::max<uint64_t>(partial_.addends, 1);
      return absl::OkStatus();
    }
    const bool whole = !floating;
    const int most = floating ? kSlotBits : ExactNumber::kNarrowBits;
    if (number.is_zero()) {
      slot = 0;
    } else if (number.wide == nullptr && number.exponent >= partial_.lsb &&
               number.top - partial_.lsb <= most) {
      slot = number.significand * (Int128{1} << (number.exponent - partial_.lsb));
    } else if (whole) {
      return Invalid(absl::StrCat("has a number at row ", partial_.rows[i], ", value ", column,
                                  ", that is no whole number below 2^", ExactNumber::kNarrowBits));
    } else {
      slot = 0;
      AppendDigits(ToWideInteger(number), partial_.rows[i], static_cast<uint32_t>(column),
                   partial_.side);
    }
    const UInt128 magnitude = slot < 0 ? -static_cast<UInt128>(slot) : static_cast<UInt128>(slot);
    partial_.addends =
        std::max(partial_.addends, static_cast<uint64_t>(magnitude >> kWindowValueBits) + 1);
    return absl::OkStatus();
  }

  const SlotKinds kinds_;
  const uint64_t stride_;
  const ExactNumber row_slot_max_;
  const std::function<absl::Status(uint64_t bytes)>& reserve_;
  Partial partial_;
  uint64_t slice_ = 0;  // number of the current one, for messages
  std::array<ExactNumber, kBlockSlots> block_;
};

}  // namespace

void WriteSlices(const Partial& partial, const OnSlice& on_slice) {
  SliceWriter writer(partial, KindsOf(partial.spec));
  std::string body;
  std::string slice;
  for (size_t begin = 0; begin < partial.rows.size();) {
    const uint64_t number = partial.rows[begin] / kSliceRows;
    size_t end = begin + 1;
    while (end < partial.rows.size() && partial.rows[end] / kSliceRows == number) ++end;
    body.clear();
    writer.Write(begin, end, body);
    slice.clear();
    AppendNumber(number, slice);
    AppendNumber(static_cast<uint32_t>(end - begin), slice);
    AppendNumber(static_cast<uint64_t>(body.size()), slice);
    slice += body;
    on_slice(slice);
    begin = end;
  }
}

absl::StatusOr<Partial> ReadSlices(const SlicesToRead& what, std::string_view& bytes,
                                   const std::function<absl::Status(uint64_t bytes)>& reserve,
                                   const OnSlice& on_slice) {
  return TensorReader(what, reserve).Read(what.slices, bytes, on_slice);
}

}  // namespace sparseagg

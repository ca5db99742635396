#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sparse/float_format.h"
#include "sparse/partials/blocks.h"
#include "sparse/partials/little_endian.h"
#include "sparse/partials/narrow_block.h"
#include "sparse/partials/slice_head.h"
#include "sparse/partials/slices.h"
#include "sparse/partials/slot_kinds.h"
#include "sparse/window.h"

namespace sparseagg {
namespace {

// Memory of side entries is reserved in steps of this many.
constexpr uint64_t kSideStep = 4096;

// The order key of a value of min and max.
Int128 ToKey(const ExactNumber& number, bool floating) {
  if (!floating) return number.significand * (Int128{1} << number.exponent);
  return OrderKey(RoundScaled(number.significand, number.exponent, kFormatF64));
}

// What the readers of all slices share. Each writes to the rows and the slots of its own slice.
struct Target {
  Target(const SlicesToRead& what, const ReserveMemory& reserve)
      : kinds(KindsOf(what.spec)),
        stores_cells(!kinds.extreme && kinds.values > 0 && IsFloating(what.spec.layout.value_type)),
        row_slot_max(kinds.counts ? MakeExact(Int128{what.contributors}, 0)
                                  : MakeExact(what.total_weight)),
        reserve(reserve) {
    partial.spec = what.spec;
    partial.contributors = what.contributors;
    partial.total_weight = what.total_weight;
  }

  // Reserves further bytes.
  absl::Status Reserve(uint64_t bytes) { return reserve(reserved += bytes); }

  const SlotKinds kinds;
  const bool stores_cells;  // floating sums are cells, not slots
  const ExactNumber row_slot_max;
  const ReserveMemory& reserve;
  std::atomic<uint64_t> reserved = 0;
  Partial partial;
};

// Reads the body of one slice.
class SliceReader {
 public:
  SliceReader(Target& target, const SliceHead& head)
      : target_(target), kinds_(target.kinds), partial_(target.partial), head_(head) {}

  absl::Status Read() {
    std::string_view body = head_.body;
    SPARSEAGG_RETURN_IF_ERROR(ReadOffsets(body));
    const uint64_t values = head_.rows * kinds_.values;
    for (uint64_t position = 0; position < values; position += kBlockSlots) {
      SPARSEAGG_RETURN_IF_ERROR(
          ReadValues(body, position, std::min<uint64_t>(values - position, kBlockSlots)));
    }
    if (kinds_.row_slot) SPARSEAGG_RETURN_IF_ERROR(ReadRowSlots(body));
    if (body.empty()) return absl::OkStatus();
    return Invalid(absl::StrCat("has ", body.size(), " bytes after its last block"));
  }

  // What does not fit the cells, and the number of addends that bounds the slots.
  std::vector<SideEntry> TakeSide() { return std::move(side_); }
  uint64_t addends() const { return addends_; }

 private:
  absl::Status Invalid(std::string_view what) const {
    return InvalidSlice(partial_.spec, head_.number, what);
  }

  absl::Status ReadOffsets(std::string_view& body) {
    uint64_t* const rows = partial_.rows.data() + head_.first;
    for (uint32_t i = 0; i < head_.rows; ++i) {
      uint16_t offset = 0;
      if (!TakeNumber(body, offset)) return Invalid("ends within its rows");
      rows[i] = head_.number * kSliceRows + offset;
      if (i > 0 && rows[i] <= rows[i - 1]) {
        return Invalid(
            absl::StrCat("has row ", rows[i], " at position ", i, ", not above the row before it"));
      }
      if (rows[i] >= partial_.spec.layout.num_rows) {
        return Invalid(absl::StrCat("has row ", rows[i], " at position ", i, ", not below ",
                                    partial_.spec.layout.num_rows, " rows"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadValues(std::string_view& body, uint64_t position, uint64_t count) {
    const uint64_t at = head_.first * kinds_.values + position;
    const bool is_narrow = !kinds_.extreme && narrow_.Read(body, kinds_.value_blocks, count);
    if (is_narrow && target_.stores_cells && narrow_.ToDoubles(Doubles(partial_.cells) + at)) {
      return absl::OkStatus();
    }
    if (is_narrow) {
      TakeNarrow(count);
    } else {
      SPARSEAGG_RETURN_IF_ERROR(Take(body, "block ", position, kinds_.value_blocks, count));
    }
    for (uint64_t k = 0; k < count; ++k) {
      const uint64_t column = (at + k) % kinds_.values;
      SPARSEAGG_RETURN_IF_ERROR(Store((at + k) / kinds_.values, column, block_[k]));
    }
    return absl::OkStatus();
  }

  absl::Status ReadRowSlots(std::string_view& body) {
    for (uint64_t position = 0; position < head_.rows; position += kBlockSlots) {
      const uint64_t count = std::min<uint64_t>(head_.rows - position, kBlockSlots);
      if (narrow_.Read(body, {}, count)) {
        TakeNarrow(count);
      } else {
        SPARSEAGG_RETURN_IF_ERROR(Take(body, "row block ", position, {}, count));
      }
      for (uint64_t k = 0; k < count; ++k) {
        const uint64_t i = head_.first + position + k;
        if (!IsRowSlot(block_[k])) {
          return Invalid(absl::StrCat("has a ", kinds_.counts ? "count" : "weight", " at row ",
                                      partial_.rows[i], " that its contributors cannot have"));
        }
        SPARSEAGG_RETURN_IF_ERROR(Store(i, kinds_.values, block_[k]));
      }
    }
    return absl::OkStatus();
  }

  // Whether the number can be the number, or the weight, of some of the contributors.
  bool IsRowSlot(const ExactNumber& number) const {
    if (number.negative() || number.top > target_.row_slot_max.top) return false;
    if (kinds_.counts && (number.is_zero() || number.exponent < 0)) return false;
    if (number.top < target_.row_slot_max.top) return true;
    WideInteger rest = ToWideInteger(target_.row_slot_max);
    for (const BalancedDigit& digit : BalancedDigits(ToWideInteger(number))) {
      rest.AddScaled(-Int128{digit.digit}, WideInteger::kLastBit + 32 * digit.position);
    }
    return !rest.negative();
  }

  void TakeNarrow(uint64_t count) {
    for (uint64_t k = 0; k < count; ++k) block_[k] = MakeExact(narrow_.unit(k), narrow_.lsb());
  }

  absl::Status Take(std::string_view& body, std::string_view what, uint64_t position,
                    const BlockKind& kind, uint64_t count) {
    const absl::Status read = ReadBlock(body, kind, std::span(block_.data(), count));
    if (read.ok()) return read;
    return Invalid(absl::StrCat("is damaged: ", std::string(what), position / kBlockSlots, " ",
                                std::string(read.message())));
  }

  absl::Status Store(uint64_t i, uint64_t column, const ExactNumber& number) {
    if (target_.stores_cells) {
      return StoreCell(i, column, number);
    }
    Int128& slot = partial_.slots[i * kinds_.stride() + column];
    if (kinds_.extreme) {
      slot = ToKey(number, IsFloating(partial_.spec.layout.value_type));
      return absl::OkStatus();
    }
    if (number.wide != nullptr || number.exponent < 0 || number.top > ExactNumber::kNarrowBits) {
      return Invalid(absl::StrCat("has a number at row ", partial_.rows[i], ", value ", column,
                                  ", that is no whole number below 2^", ExactNumber::kNarrowBits));
    }
    slot = number.significand * (Int128{1} << number.exponent);
    const UInt128 magnitude = slot < 0 ? -static_cast<UInt128>(slot) : static_cast<UInt128>(slot);
    addends_ = std::max(addends_, static_cast<uint64_t>(magnitude >> kWindowValueBits) + 1);
    return absl::OkStatus();
  }

  // Stores a number as the nearest double; the rest goes to the side table, and a large number as a
  // whole.
  absl::Status StoreCell(uint64_t i, uint64_t column, const ExactNumber& number) {
    double& cell = column < kinds_.values ? Doubles(partial_.cells)[i * kinds_.values + column]
                                          : Doubles(partial_.row_cells)[i];
    cell = number.wide != nullptr ? number.wide->ToDouble()
                                  : RoundScaled(number.significand, number.exponent, kFormatF64);
    if (!(std::fabs(cell) < kCellLimit)) cell = 0.0;
    if (cell != 0.0 && number.top - number.exponent <= kFormatF64.precision) {
      return absl::OkStatus();
    }
    WideInteger rest = ToWideInteger(number);
    rest.Add(-cell);
    AppendDigits(rest, partial_.rows[i], static_cast<uint32_t>(column), side_);
    if (side_.size() <= side_reserved_) return absl::OkStatus();
    const uint64_t more = side_.size() - side_reserved_ + kSideStep;
    side_reserved_ += more;
    return target_.Reserve(more * sizeof(SideEntry));
  }

  static double* Doubles(HostVector<std::byte>& cells) {
    return reinterpret_cast<double*>(cells.data());
  }

  Target& target_;
  const SlotKinds& kinds_;
  Partial& partial_;
  const SliceHead& head_;
  NarrowBlock narrow_;
  std::array<ExactNumber, kBlockSlots> block_;
  std::vector<SideEntry> side_;
  uint64_t side_reserved_ = 0;
  uint64_t addends_ = 1;
};

// Makes room for the rows of all slices.
absl::Status Allocate(std::span<const SliceHead> heads, Target& target) {
  if (heads.empty()) return target.Reserve(0);
  const uint64_t rows = heads.back().first + heads.back().rows;
  const uint64_t slots = rows * target.kinds.stride();
  const uint64_t slot_bytes = target.stores_cells ? sizeof(double) : sizeof(Int128);
  SPARSEAGG_RETURN_IF_ERROR(target.Reserve(rows * sizeof(uint64_t) + slots * slot_bytes));
  target.partial.rows.resize(rows);
  if (!target.stores_cells) {
    target.partial.slots.resize(slots);
    return absl::OkStatus();
  }
  target.partial.cells.resize(rows * target.kinds.values * sizeof(double));
  if (target.kinds.row_slot) target.partial.row_cells.resize(rows * sizeof(double));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Partial> ReadSlices(const SlicesToRead& what, std::string_view& bytes,
                                   const ReserveMemory& reserve, const ForEach& for_each) {
  Target target(what, reserve);
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<SliceHead> heads,
                             TakeSliceHeads(what.spec, target.kinds, what.slices, bytes));
  SPARSEAGG_RETURN_IF_ERROR(Allocate(heads, target));
  std::vector<absl::Status> statuses(heads.size());
  std::vector<std::vector<SideEntry>> sides(heads.size());
  std::vector<uint64_t> addends(heads.size());
  for_each(heads.size(), [&](size_t i) {
    SliceReader reader(target, heads[i]);
    statuses[i] = reader.Read();
    sides[i] = reader.TakeSide();
    addends[i] = reader.addends();
  });
  Partial& partial = target.partial;
  for (size_t i = 0; i < heads.size(); ++i) {
    SPARSEAGG_RETURN_IF_ERROR(statuses[i]);
    const std::vector<SideEntry> side = std::move(sides[i]);
    partial.side.insert(partial.side.end(), side.begin(), side.end());
    partial.addends = std::max(partial.addends, addends[i]);
  }
  SortSide(partial.side);
  return std::move(partial);
}

}  // namespace sparseagg

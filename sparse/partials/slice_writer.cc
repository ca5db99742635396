#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "sparse/partials/blocks.h"
#include "sparse/partials/little_endian.h"
#include "sparse/partials/narrow_block.h"
#include "sparse/partials/slices.h"
#include "sparse/partials/slot_kinds.h"

namespace sparseagg {
namespace {

// The number that an order key stands for.
ExactNumber FromKey(Int128 key, bool floating) {
  if (!floating) return MakeExact(key, 0);
  const double value = FromOrderKey(static_cast<int64_t>(key));
  return IsFiniteBits(value) ? MakeExact(value) : Infinite(value < 0);
}

// Writes the blocks of one slice.
class SliceWriter {
 public:
  SliceWriter(const Partial& partial, size_t begin, size_t end)
      : partial_(partial),
        begin_(begin),
        end_(end),
        kinds_(KindsOf(partial.spec)),
        cells_(AsDoubles(partial.cells)),
        row_cells_(AsDoubles(partial.row_cells)) {
    const auto first =
        std::lower_bound(partial.side.begin(), partial.side.end(), PlaceOf(begin, 0), SlotLess);
    values_side_.at = rows_side_.at = static_cast<size_t>(first - partial.side.begin());
  }

  void Write(std::string& body) {
    for (size_t i = begin_; i < end_; ++i) {
      AppendNumber(static_cast<uint16_t>(partial_.rows[i] % kSliceRows), body);
    }
    const size_t values_end = end_ * kinds_.values;
    for (size_t at = begin_ * kinds_.values; at < values_end; at += kBlockSlots) {
      WriteValues(at, std::min(kBlockSlots, values_end - at), body);
    }
    for (size_t i = begin_; kinds_.row_slot && i < end_; i += kBlockSlots) {
      WriteRowSlots(i, std::min(kBlockSlots, end_ - i), body);
    }
  }

 private:
  // A position in the side table, of the entries of value slots or of those of row slots.
  struct SideCursor {
    bool of_rows;
    size_t at = 0;
  };

  SideEntry PlaceOf(size_t i, uint64_t column) const {
    return {partial_.rows[i], static_cast<uint32_t>(column), 0, 0};
  }

  // Moves the cursor to the first entry of its kind that is not before the slot.
  void Skip(const SideEntry& place, SideCursor& side) const {
    const auto is_before = [&](const SideEntry& entry) {
      return (entry.column == kinds_.values) != side.of_rows || SlotLess(entry, place);
    };
    while (side.at < partial_.side.size() && is_before(partial_.side[side.at])) ++side.at;
  }

  // Returns whether a slot from `first` to `last` has entries.
  bool HasSide(const SideEntry& first, const SideEntry& last, SideCursor& side) const {
    Skip(first, side);
    return side.at < partial_.side.size() && !SlotLess(last, partial_.side[side.at]);
  }

  ExactNumber NumberOf(size_t i, uint64_t column, SideCursor& side) const {
    const Int128 slot = HasCells(partial_) ? 0 : partial_.slots[i * kinds_.stride() + column];
    if (kinds_.extreme) return FromKey(slot, IsFloating(partial_.spec.layout.value_type));
    const ExactNumber number = !HasCells(partial_) ? MakeExact(slot, partial_.lsb)
                               : column < kinds_.values
                                   ? MakeExact(cells_[i * kinds_.values + column])
                                   : MakeExact(row_cells_[i]);
    const SideEntry place = PlaceOf(i, column);
    if (!HasSide(place, place, side)) return number;
    // Trailing zeros have come off: a window may begin below the last bit of a wide integer.
    WideInteger sum = ToWideInteger(number);
    for (; side.at < partial_.side.size() && !SlotLess(place, partial_.side[side.at]); ++side.at) {
      sum.AddScaled(partial_.side[side.at].significand, partial_.side[side.at].exponent);
    }
    return MakeExact(sum);
  }

  void WriteValues(size_t at, size_t count, std::string& body) {
    const uint64_t width = kinds_.values;
    const auto place = [&](size_t k) { return PlaceOf(k / width, k % width); };
    if (!kinds_.extreme && !HasSide(place(at), place(at + count - 1), values_side_)) {
      const bool is_narrow =
          HasCells(partial_) ? narrow_.Set(cells_.subspan(at, count)) : SetSlots(at, width, count);
      if (is_narrow && narrow_.Write(kinds_.value_blocks, body)) return;
    }
    for (size_t k = 0; k < count; ++k) {
      block_[k] = NumberOf((at + k) / width, (at + k) % width, values_side_);
    }
    WriteBlock(std::span(block_.data(), count), kinds_.value_blocks, body);
  }

  void WriteRowSlots(size_t i, size_t count, std::string& body) {
    const uint64_t column = kinds_.values;
    if (!HasSide(PlaceOf(i, column), PlaceOf(i + count - 1, column), rows_side_)) {
      for (size_t k = 0; k < count && !HasCells(partial_); ++k) {
        slots_[k] = partial_.slots[(i + k) * kinds_.stride() + column];
      }
      const bool is_narrow = HasCells(partial_)
                                 ? narrow_.Set(row_cells_.subspan(i, count))
                                 : narrow_.Set(std::span(slots_.data(), count), partial_.lsb);
      if (is_narrow && narrow_.Write({}, body)) return;
    }
    for (size_t k = 0; k < count; ++k) block_[k] = NumberOf(i + k, column, rows_side_);
    WriteBlock(std::span(block_.data(), count), {}, body);
  }

  bool SetSlots(size_t at, uint64_t width, size_t count) {
    for (size_t k = 0; k < count; ++k) {
      slots_[k] = partial_.slots[(at + k) / width * kinds_.stride() + (at + k) % width];
    }
    return narrow_.Set(std::span(slots_.data(), count), partial_.lsb);
  }

  const Partial& partial_;
  const size_t begin_;
  const size_t end_;
  const SlotKinds kinds_;
  const std::span<const double> cells_;
  const std::span<const double> row_cells_;
  SideCursor values_side_{.of_rows = false};
  SideCursor rows_side_{.of_rows = true};
  NarrowBlock narrow_;
  std::array<Int128, kBlockSlots> slots_;
  std::array<ExactNumber, kBlockSlots> block_;
};

// Bytes that a number, or the offset of a row, is expected to take.
constexpr uint64_t kBytesLikely = 6;

}  // namespace

std::vector<size_t> SliceEnds(const Partial& partial) {
  std::vector<size_t> ends;
  for (auto row = partial.rows.begin(); row != partial.rows.end();) {
    row = std::lower_bound(row, partial.rows.end(), (*row / kSliceRows + 1) * kSliceRows);
    ends.push_back(static_cast<size_t>(row - partial.rows.begin()));
  }
  return ends;
}

std::string WriteSlice(const Partial& partial, size_t begin, size_t end) {
  std::string slice;
  slice.reserve((end - begin) * (1 + SlotsPerRow(partial.spec)) * kBytesLikely);
  AppendNumber(partial.rows[begin] / kSliceRows, slice);
  AppendNumber(static_cast<uint32_t>(end - begin), slice);
  const size_t bytes_at = slice.size();
  AppendNumber(uint64_t{0}, slice);
  const size_t body_at = slice.size();
  SliceWriter(partial, begin, end).Write(slice);
  const uint64_t bytes = slice.size() - body_at;
  std::memcpy(slice.data() + bytes_at, &bytes, sizeof(bytes));
  return slice;
}

}  // namespace sparseagg

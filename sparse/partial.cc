#include "sparse/partial.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sparse/ops/all.h"
#include "sparse/slot_math.h"
#include "sparse/window.h"
#include "sparse/window_choice.h"

namespace sparseagg {
namespace {

// Side entries of one slot are summed when there are more than this many.
constexpr size_t kSideRunMax = 16;
// The window of slots is chosen from about so many cells.
constexpr size_t kWindowSamples = 4096;

void AppendSlot(Int128 slot, int32_t lsb, uint64_t row, uint32_t column,
                std::vector<SideEntry>& side) {
  WideInteger value;
  value.AddScaled(slot, lsb);
  AppendDigits(value, row, column, side);
}

std::vector<SideEntry> MergeSides(std::vector<SideEntry> a, std::vector<SideEntry> b) {
  if (b.empty()) return a;
  if (a.empty()) return b;
  std::vector<SideEntry> merged;
  merged.reserve(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(merged), SlotLess);
  CompactSide(merged);
  return merged;
}

template <class Op>
void MergeSlots(const Partial& a, const Partial& b, Partial& out) {
  const uint32_t width = SlotsPerRow(out.spec);
  size_t i = 0;
  size_t j = 0;
  while (i < a.rows.size() || j < b.rows.size()) {
    const bool take_a = j == b.rows.size() || (i < a.rows.size() && a.rows[i] <= b.rows[j]);
    const bool take_b = i == a.rows.size() || (j < b.rows.size() && b.rows[j] <= a.rows[i]);
    out.rows.push_back(take_a ? a.rows[i] : b.rows[j]);
    for (uint32_t c = 0; c < width; ++c) {
      if (take_a && take_b) {
        out.slots.push_back(CombineSlots<Op>(a.slots[i * width + c], b.slots[j * width + c]));
      } else {
        out.slots.push_back(take_a ? a.slots[i * width + c] : b.slots[j * width + c]);
      }
    }
    i += take_a ? 1 : 0;
    j += take_b ? 1 : 0;
  }
}

}  // namespace

uint32_t SlotsPerRow(const ReduceSpec& spec) {
  uint32_t slots = 0;
  AllOps::With(spec.op, [&](auto op) {
    using Op = decltype(op);
    slots = (Op::kValues == ValueSlots::kNone ? 0 : spec.layout.row_width) +
            (Op::kRowSlot == RowSlot::kNone ? 0 : 1);
  });
  return slots;
}

uint64_t MemoryBytes(const Partial& partial) {
  return partial.rows.size() * sizeof(uint64_t) + partial.slots.capacity() * sizeof(Int128) +
         partial.side.capacity() * sizeof(SideEntry) + partial.cells.size() +
         partial.row_cells.size();
}

Partial WithSlots(Partial partial) {
  if (!HasCells(partial)) return partial;
  const std::span<const double> cells = AsDoubles(partial.cells);
  const std::span<const double> row_cells = AsDoubles(partial.row_cells);
  std::vector<double> samples;
  for (const std::span<const double> some : {cells, row_cells}) {
    for (size_t i = 0; i < some.size(); i += some.size() / kWindowSamples + 1) {
      samples.push_back(some[i]);
    }
  }
  partial.lsb = ChooseWindow(samples);
  std::vector<SideEntry> moved;
  partial.slots.reserve(cells.size() + row_cells.size());
  const uint32_t width = partial.spec.layout.row_width;
  for (size_t i = 0; i < partial.rows.size(); ++i) {
    const auto append = [&](double cell, uint32_t column) {
      Int128& slot = partial.slots.emplace_back(0);
      if (ToFixed(cell, partial.lsb, &slot)) return;
      const Scaled parts = Decompose(cell);
      moved.push_back({partial.rows[i], column, parts.exponent, parts.significand});
    };
    for (uint32_t c = 0; c < width; ++c) append(cells[i * width + c], c);
    if (!row_cells.empty()) append(row_cells[i], width);
  }
  partial.cells = {};
  partial.row_cells = {};
  partial.side = MergeSides(std::move(partial.side), std::move(moved));
  return partial;
}

void SortSide(std::vector<SideEntry>& side) { std::sort(side.begin(), side.end(), SlotLess); }

void AppendDigits(const WideInteger& value, uint64_t row, uint32_t column,
                  std::vector<SideEntry>& side) {
  const bool negative = value.negative();
  uint64_t carry = 1;
  for (int i = 0; i < WideInteger::kWords; ++i) {
    uint64_t word = value.word(i);
    if (negative) {
      word = ~word + carry;
      carry = (carry != 0 && word == 0) ? 1 : 0;
    }
    for (int half = 0; half < 2; ++half) {
      const auto digit = static_cast<int64_t>(static_cast<uint32_t>(word >> (32 * half)));
      if (digit == 0) continue;
      side.push_back(
          {row, column, WideInteger::kLastBit + 64 * i + 32 * half, negative ? -digit : digit});
    }
  }
}

void CompactSide(std::vector<SideEntry>& side) {
  std::vector<SideEntry> digits;
  size_t out = 0;
  for (size_t begin = 0; begin < side.size();) {
    size_t end = begin + 1;
    while (end < side.size() && !SlotLess(side[begin], side[end])) ++end;
    digits.clear();
    if (end - begin > kSideRunMax) {
      WideInteger sum;
      for (size_t i = begin; i < end; ++i) sum.AddScaled(side[i].significand, side[i].exponent);
      AppendDigits(sum, side[begin].row, side[begin].column, digits);
    }
    // A sum over the whole exponent range may need more digits than the run has entries; the run is
    // kept then.
    if (end - begin > kSideRunMax && digits.size() < end - begin) {
      out = std::copy(digits.begin(), digits.end(), side.begin() + out) - side.begin();
    } else {
      out = std::move(side.begin() + begin, side.begin() + end, side.begin() + out) - side.begin();
    }
    begin = end;
  }
  side.resize(out);
}

void Rebase(Partial& partial, int32_t lsb) {
  if (partial.lsb == lsb) return;
  const uint32_t width = SlotsPerRow(partial.spec);
  const int shift = partial.lsb - lsb;  // > 0: the new unit is finer
  // |slot| must stay below addends * 2^kWindowValueBits in the new unit too.
  const UInt128 bound = static_cast<UInt128>(partial.addends) << kWindowValueBits;
  std::vector<SideEntry> moved;
  for (size_t i = 0; i < partial.slots.size(); ++i) {
    Int128& slot = partial.slots[i];
    if (slot == 0) continue;
    const UInt128 magnitude = slot < 0 ? -static_cast<UInt128>(slot) : static_cast<UInt128>(slot);
    if (shift >= 0 && shift < 128 && magnitude < (bound >> shift)) {
      slot = static_cast<Int128>(static_cast<UInt128>(slot) << shift);
    } else if (shift < 0 && shift > -127 && (magnitude & ((UInt128{1} << -shift) - 1)) == 0) {
      slot >>= -shift;
    } else {
      AppendSlot(slot, partial.lsb, partial.rows[i / width], static_cast<uint32_t>(i % width),
                 moved);
      slot = 0;
    }
  }
  partial.lsb = lsb;
  partial.side = MergeSides(std::move(partial.side), std::move(moved));
}

absl::Status CheckMergeable(const Partial& a, const Partial& b) {
  if (a.spec.op != b.spec.op || a.spec.layout != b.spec.layout ||
      a.spec.integer_overflow != b.spec.integer_overflow) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, "SPEC_MISMATCH",
        absl::StrCat("tensor \"", a.spec.name, "\": a partial aggregate of ", b.spec.op, " over ",
                     b.spec.layout.num_rows, " rows of ", b.spec.layout.row_width, " ",
                     std::string(ValueTypeName(b.spec.layout.value_type)),
                     " cannot be merged into one of ", a.spec.op, " over ", a.spec.layout.num_rows,
                     " rows of ", a.spec.layout.row_width, " ",
                     std::string(ValueTypeName(a.spec.layout.value_type))));
  }
  return CheckAddends(a.spec, a.addends, b.addends);
}

absl::Status IntegerOverflowError(const ReduceSpec& spec, uint64_t row, uint32_t column) {
  std::string where = absl::StrCat("tensor \"", spec.name, "\": the ", spec.op, " at index ", row);
  if (spec.layout.row_width > 1) absl::StrAppend(&where, ", value ", column, ",");
  return MakeError(
      absl::StatusCode::kOutOfRange, "INTEGER_OVERFLOW",
      absl::StrCat(where, " does not fit in ",
                   std::string(ValueTypeName(ResultLayout(spec).value_type)),
                   "; use a wider type, or set integer_overflow to modular if it should wrap"));
}

absl::Status CheckAddends(const ReduceSpec& spec, uint64_t addends, uint64_t more) {
  if (addends + more > kAddendsMax) {
    return MakeError(absl::StatusCode::kResourceExhausted, "TOO_MANY_ENTRIES",
                     absl::StrCat("tensor \"", spec.name, "\": more than ", kAddendsMax,
                                  " entries in one round"));
  }
  return absl::OkStatus();
}

Partial MergePartials(Partial a, Partial b) {
  a = WithSlots(std::move(a));
  b = WithSlots(std::move(b));
  // The smaller one is rebased, so that a few entries far from the others do not move those to the
  // side table.
  if (a.addends < b.addends) std::swap(a, b);
  Rebase(b, a.lsb);
  Partial out;
  out.spec = a.spec;
  out.contributors = a.contributors + b.contributors;
  out.total_weight = a.total_weight;
  out.total_weight.Add(b.total_weight);
  out.addends = a.addends + b.addends;
  out.lsb = a.lsb;
  out.rows.reserve(a.rows.size() + b.rows.size());
  out.slots.reserve(a.slots.size() + b.slots.size());
  AllOps::With(out.spec.op, [&](auto op) { MergeSlots<decltype(op)>(a, b, out); });
  out.side = MergeSides(std::move(a.side), std::move(b.side));
  return out;
}

}  // namespace sparseagg

#include "cuda/side_rows.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "sparse/ops/all.h"
#include "sparse/slot_math.h"
#include "sparse/values.h"
#include "sparse/window_choice.h"

namespace sparseagg::gpu {
namespace {

constexpr size_t kSamples = 4096;

bool BeforeRow(const SideEntry& entry, uint64_t row) { return entry.row < row; }

template <class Op, class V>
uint64_t FinalizeRow(const SideFinalization& finalization, const std::vector<WideInteger>& sums,
                     std::byte* out) {
  using R = ResultValue<Op, V>;
  const uint32_t width = ResultLayout(finalization.spec).row_width;
  uint64_t infinite = 0;
  for (uint32_t c = 0; c < width; ++c) {
    R value{};
    const Finalized finalized =
        FinalizeValue<Op, V>(sums[c], sums.back(), finalization.total_weight,
                             finalization.spec.integer_overflow, &value);
    infinite += finalized == Finalized::kInfinite ? 1 : 0;
    std::memcpy(out + c * sizeof(R), &value, sizeof(R));
  }
  return infinite;
}

}  // namespace

std::vector<uint64_t> RowsOf(std::span<const SideEntry> side) {
  std::vector<uint64_t> rows;
  for (const SideEntry& entry : side) {
    if (rows.empty() || rows.back() != entry.row) rows.push_back(entry.row);
  }
  return rows;
}

std::vector<uint64_t> SideRows(const std::vector<SideEntry>& side, const HostVector<uint64_t>& rows,
                               size_t begin, size_t end) {
  if (begin == end) return {};
  const auto first = std::lower_bound(side.begin(), side.end(), rows[begin], BeforeRow);
  const auto last = std::lower_bound(first, side.end(), rows[end - 1] + 1, BeforeRow);
  return RowsOf(std::span(first, last));
}

void FinalizeWithSide(const SideFinalization& finalization, const std::vector<uint64_t>& rows,
                      const std::vector<Int128>& slots, const std::vector<SideEntry>& side,
                      size_t result_begin, Aggregate& result) {
  const uint32_t width = SlotsPerRow(finalization.spec);
  const size_t row_bytes = result.tensor.layout.row_bytes();
  auto entry =
      rows.empty() ? side.end() : std::lower_bound(side.begin(), side.end(), rows[0], BeforeRow);
  auto at = result.tensor.indices.kept().begin() + static_cast<std::ptrdiff_t>(result_begin);
  std::vector<WideInteger> sums(width);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (uint32_t c = 0; c < width; ++c) {
      sums[c] = {};
      sums[c].AddScaled(slots[r * width + c], finalization.lsb);
    }
    for (; entry != side.end() && entry->row == rows[r]; ++entry) {
      sums[entry->column].AddScaled(entry->significand, entry->exponent);
    }
    at = std::lower_bound(at, result.tensor.indices.kept().end(), rows[r]);
    std::byte* out = result.tensor.values.data() +
                     static_cast<size_t>(at - result.tensor.indices.kept().begin()) * row_bytes;
    AllOps::With(finalization.spec.op, [&](auto op) {
      WithValueType(finalization.spec.layout.value_type, [&](auto tag) {
        result.infinite_values +=
            FinalizeRow<decltype(op), typename decltype(tag)::type>(finalization, sums, out);
      });
    });
  }
}

int32_t ChooseLsbOf(const Partial& partial) {
  std::vector<double> samples;
  for (size_t i = 0; i < partial.slots.size(); i += partial.slots.size() / kSamples + 1) {
    samples.push_back(RoundScaled(partial.slots[i], partial.lsb, kFormatF64));
  }
  for (size_t i = 0; i < partial.side.size(); i += partial.side.size() / kSamples + 1) {
    const SideEntry& entry = partial.side[i];
    samples.push_back(RoundScaled(entry.significand, entry.exponent, kFormatF64));
  }
  std::erase_if(samples, [](double sample) { return !IsFiniteBits(sample); });
  return ChooseWindow(samples);
}

void TakeSideIntoSlots(Partial& partial) {
  const uint32_t width = SlotsPerRow(partial.spec);
  for (const SideEntry& entry : partial.side) {
    const auto at =
        static_cast<size_t>(std::lower_bound(partial.rows.begin(), partial.rows.end(), entry.row) -
                            partial.rows.begin());
    WideInteger part;
    part.AddScaled(entry.significand, entry.exponent);
    partial.slots[at * width + entry.column] += part.ToInteger();
  }
  partial.side.clear();
}

}  // namespace sparseagg::gpu
